package pack

import "slices"

const (
	// exchangeMoves is how many pods may go elsewhere for one, exchangePair how many from one
	// machine.
	exchangeMoves, exchangePair = 3, 2
	// exchangeLooks bounds how often that is tried for all pods, exchangeOne for one.
	exchangeLooks, exchangeOne = 150_000, 50_000
)

// exchange finds places, on machines that are to be bought anyway, for pods that the rules
// between pods keep from where they were meant to be: others go elsewhere for them.
type exchange struct {
	*buyer
	bins   []*opening
	seated [][]int32 // by bin: pods
	of     []int     // by pod: its class
	// members and right are by class: what is bought for, and the atoms that are right.
	// Pods of a class without stay where they are.
	members []*member
	right   [][]uint64
	looks   int // that are left
	broken  int // pods whose rules were broken before
}

// guest is a pod that looks for a place.
type guest struct {
	*member
	pod int32
}

// exchange does so for all pods that are left.
func (b *buyer) exchange(bins []*opening) {
	if len(b.visible) > 0 {
		return
	}
	x := b.newExchange(bins)
	total := exchangeLooks
	for _, c := range b.order {
		m := x.members[c]
		if m == nil {
			continue
		}
		for range len(m.class.pods) {
			p := m.class.pods[0]
			m.class.pods = m.class.pods[1:]
			x.broken, x.looks = x.count(), min(exchangeOne, total)
			total -= x.looks
			if !x.placed1(guest{m, p}) {
				m.class.pods = append(slices.Clip(m.class.pods), p)
			}
			total += max(x.looks, 0)
		}
	}
	for i := range x.bins {
		x.settle(i)
	}
}
