package topology

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// Miss is a rule that a pod would break at a place. The zero Miss is none. It becomes a
// verdict only when somebody reads it: most are found while other places are searched.
type Miss struct {
	reason verdict.Reason
	// format has a verb for the key and, where there is a skew, for it and its maximum.
	format    string
	key       string
	skew, max int32
}

// IsYes reports whether every rule is kept.
func (m Miss) IsYes() bool { return m.reason == verdict.OK }

// Verdict returns the miss in words.
func (m Miss) Verdict() verdict.Verdict {
	switch {
	case m.IsYes():
		return verdict.Verdict{}
	case m.max > 0:
		return verdict.Of(m.reason, "", m.format, m.key, m.skew, m.max)
	default:
		return verdict.Of(m.reason, "", m.format, m.key)
	}
}

// Check reports whether one more pod of the class may go to the place. Preferences before the
// given one have been given up. Rules on a key whose domain is Open are skipped: they are
// asked when the domain is known.
//
// With respectsSpread the pod also keeps to the spreads of others that count it, though it
// need not: kube-scheduler may bind it before the pods that have such a spread, and then there
// would be one too many for them. Where none of those pods are, a spread over hosts does not
// matter: nodes can be launched for them.
func (l *Ledger) Check(class int, at *Place, preferencesFrom int, respectsSpread bool) Miss {
	k := check{ledger: l}
	if respectsSpread {
		l.meter.Spend(len(l.rules[class].counted))
		for _, g := range l.rules[class].counted {
			gr := &l.groups[g]
			if gr.kind == spreading && at.counts(g) && at.Domain[gr.key] >= 0 && (!gr.launchable || !gr.onHosts || gr.owners[at.Domain[gr.key]] > 0) {
				if m := k.spread(&use{group: g, self: 1}, at, 0); !m.IsYes() {
					return m
				}
			}
		}
	}
	return k.judge(class, at, preferencesFrom)
}

// Holds reports whether a pod of the class that has been counted at the place may stay
// there. Preferences are left out.
func (l *Ledger) Holds(class int, at *Place) Miss {
	k := check{ledger: l, counted: true}
	return k.judge(class, at, math.MaxInt)
}

// Admit reports whether a pod of the class that has been counted at the place breaks no
// rule there, neither its own nor a spread of others.
func (l *Ledger) Admit(class int, at *Place) bool {
	k := check{ledger: l, counted: true}
	l.meter.Spend(len(l.rules[class].counted))
	for _, g := range l.rules[class].counted {
		if gr := &l.groups[g]; gr.kind == spreading && at.counts(g) && at.Domain[gr.key] >= 0 {
			if !k.spread(&use{group: g, self: 1}, at, 1).IsYes() {
				return false
			}
		}
	}
	return k.judge(class, at, math.MaxInt).IsYes()
}

// Attracted reports whether the pods that a pod of the class must be with are at the place.
// With first, a pod may also be the first of an affinity group.
func (l *Ledger) Attracted(class int, at *Place, first bool) bool {
	k, r := check{ledger: l}, &l.rules[class]
	for i := range r.attracting {
		a := r.attracting[i]
		if a.self = a.self && first; a.preference < 0 && !k.attract(&a, at).IsYes() {
			return false
		}
	}
	return true
}

// MayBeAttracted reports whether the pods that a pod of the class must be with may be at the
// place: pods on a node whose domain is undetermined may be in each of its domains.
func (l *Ledger) MayBeAttracted(class int, at *Place) bool {
	return !slices.ContainsFunc(l.rules[class].attracting, func(a affinity) bool {
		return a.preference < 0 && slices.ContainsFunc(a.uses, func(u use) bool { return l.groups[u.group].mostAt(at, u.group) == 0 })
	})
}

// Appeal orders the domains of a key for a pod of the class: less is better. Domains that
// affinity pulls to come first, then those with fewer pods to spread from.
func (l *Ledger) Appeal(class, key int, domain int32) int64 {
	r := &l.rules[class]
	var appeal int64
	for i := range r.attracting {
		for _, u := range r.attracting[i].uses {
			if g := &l.groups[u.group]; g.key == key && g.sure(domain) == 0 {
				appeal += 1 << 32
			}
		}
	}
	for _, u := range r.spread {
		if g := &l.groups[u.group]; g.key == key {
			appeal += int64(g.counts[domain])
		}
	}
	return appeal
}

// check asks whether a pod may be at a place. The place is a parameter of its methods, so that
// it need not be on the heap.
type check struct {
	ledger *Ledger
	// counted: the pod is in the counts already.
	counted bool
}

// judge applies every rule of the class.
func (k *check) judge(class int, at *Place, preferencesFrom int) Miss {
	l, r := k.ledger, &k.ledger.rules[class]
	l.meter.Spend(r.weight)
	for i := range r.spread {
		if u := &r.spread[i]; kept(u.preference, preferencesFrom) {
			if m := k.spread(u, at, k.already(u)); !m.IsYes() {
				return m
			}
		}
	}
	for i := range r.attracting {
		if a := &r.attracting[i]; kept(a.preference, preferencesFrom) {
			if m := k.attract(a, at); !m.IsYes() {
				return m
			}
		}
	}
	for i := range r.repelling {
		u := &r.repelling[i]
		if g := &l.groups[u.group]; kept(u.preference, preferencesFrom) && g.mostAt(at, u.group)-k.already(u) > 0 {
			return Miss{reason: verdict.AntiAffinityUnmet, format: "anti-affinity: its %s has a pod that it must not be with", key: l.keys[g.key]}
		}
	}
	for i := range r.repelled {
		u := &r.repelled[i]
		g := &l.groups[u.group]
		n := g.mostAt(at, u.group)
		if n > 1 || n == 1 && !(k.counted && l.Sees(u.group, class)) { // it may be the pod itself
			return Miss{reason: verdict.AntiAffinityUnmet, format: "anti-affinity: its %s has a pod that does not want to be with it", key: l.keys[g.key]}
		}
	}
	return Miss{}
}

// already returns how much of the group's count is the pod itself.
func (k *check) already(u *use) int32 {
	if k.counted {
		return u.self
	}
	return 0
}

// spread reports whether the skew stays within bounds. already is 1 if the pod is counted.
func (k *check) spread(u *use, at *Place, already int32) (miss Miss) {
	g := &k.ledger.groups[u.group]
	switch d := at.Domain[g.key]; d {
	case Open:
	case None:
		return Miss{reason: verdict.SpreadUnmet, format: "spread: the node has no label %s", key: k.ledger.keys[g.key]}
	case Undetermined:
		for _, m := range at.May[u.group] {
			if miss = k.skew(u, at, m, already); !miss.IsYes() {
				return miss
			}
		}
	default:
		return k.skew(u, at, d, already)
	}
	return miss
}

// skew is spread for one domain that the place may be in.
func (k *check) skew(u *use, at *Place, domain, already int32) Miss {
	g := &k.ledger.groups[u.group]
	if skew := g.most(domain) - already + u.self - k.fewest(u.group, at, domain); skew > g.maxSkew {
		return Miss{reason: verdict.SpreadUnmet, format: "spread over %s: the skew would be %d, at most %d is allowed", key: k.ledger.keys[g.key], skew: skew, max: g.maxSkew}
	}
	return Miss{}
}

// fewest returns the count of the emptiest domain that a pod could be in; the place is in the
// given one. A node that is launched has a new hostname, so over hosts there is always an
// empty one.
func (k *check) fewest(group int, at *Place, domain int32) int32 {
	l := k.ledger
	g := &l.groups[group]
	if g.launchable && !l.soldOut && g.onHosts && len(g.floor) == 0 {
		return 0
	}
	l.meter.Spend(len(g.counts) / numbersUnit)
	least, domains, own := int32(math.MaxInt32), int32(0), -1
	if at.counts(group) {
		own = int(domain)
	}
	for d := range g.counts {
		switch {
		case g.present[d] || d == own:
			domains++
			least = min(least, g.counts[d])
		case d < len(g.awaited) && g.awaited[d]:
			least = min(least, g.counts[d])
		case g.possible[d] && !l.soldOut:
			least = min(least, g.floor[int32(d)])
		}
	}
	if domains < g.minDomains || least == math.MaxInt32 {
		return 0
	}
	return least
}

// attract reports whether each term's domain has pods that match all the terms. If no domain
// has any, a pod that matches them itself may be the first.
func (k *check) attract(a *affinity, at *Place) Miss {
	self := int32(0)
	if k.counted && a.self {
		self = 1
	}
	found, first := true, a.self
	var missing string
	for i := range a.uses {
		g := &k.ledger.groups[a.uses[i].group]
		switch d := at.Domain[g.key]; {
		case d == None:
			return Miss{reason: verdict.AffinityUnmet, format: "affinity: the node has no label %s", key: k.ledger.keys[g.key]}
		case d >= 0 && g.sure(d)-self <= 0 || d == Undetermined && slices.ContainsFunc(at.May[a.uses[i].group], func(m int32) bool { return g.sure(m) == 0 }):
			found, missing = false, k.ledger.keys[g.key]
		}
		first = first && g.total-self <= 0
	}
	if !found && !first {
		return Miss{reason: verdict.AffinityUnmet, format: "affinity: its %s has no pod that it must be with", key: missing}
	}
	return Miss{}
}
