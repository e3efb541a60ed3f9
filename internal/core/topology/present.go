package topology

// Absent notes that no machine that counts in a spreading group is in the domain any more.
func (l *Ledger) Absent(group int, domain int32) {
	if l.asks(group) {
		l.groups[group].present[domain] = false
	}
}

// ForgetPossible leaves out of every spread the domains in which machines could only be
// bought: kube-scheduler does not know of them. Hostnames stay, because a machine that is
// bought for the pod is a new one.
func (l *Ledger) ForgetPossible() {
	for g := range l.groups {
		gr := &l.groups[g]
		if gr.kind != spreading || l.isHostname(gr.key) {
			continue
		}
		clear(gr.possible)
		gr.buyable = false
	}
}

// SoldOut leaves out of every spread what could be bought: nothing more is.
func (l *Ledger) SoldOut() { l.soldOut = true }
