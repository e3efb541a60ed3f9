package launch

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/pack/place"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// launcher is one Launch, or the proof of one Bound. The bins of its problem for core/cover are
// the offerings of all NodePools, those of each from a multiple of 64 on.
type launcher struct {
	state  *place.State
	model  *model.Model
	topo   *place.Topology
	ledger *topology.Ledger
	base   []int // by pool: its first bin
	bins   int
	// hostname is the ledger's index of that key; -1: no rule mentions it. host is a domain of it
	// that no node is in.
	hostname int
	host     int32
	shares   []share
	exact    bool // shares are of pods of one size
	// usable are, by pool, the offerings that can be launched now at a known price, within limits.
	usable   []model.Bitset
	reserved map[string]int // nodes left, by reservation
	scratch  model.Bitset
	right    []uint64 // the bins of the class at hand
	words    model.Slab[uint64]
	openings model.Slab[opening]
	members  []member  // memory for shares of one class
	sets     sets      // sets of bins that shares have in common
	sidesNow []side    // those of the share at hand
	divided  []divided // the sides of the last shares
}

func newLauncher(s *place.State) *launcher {
	b := &launcher{state: s, model: s.Model, topo: s.Topology, ledger: s.Topology.Ledger, hostname: -1}
	for _, p := range s.Model.Pools {
		b.base = append(b.base, b.bins)
		b.bins += (len(p.Offerings) + 63) &^ 63
	}
	return b
}

// noteOfferings notes which offerings of each NodePool are usable now, and how many nodes the
// reservations cover.
func (b *launcher) noteOfferings() {
	b.reserved = b.model.ReservationsLeft()
	b.usable = b.usable[:0]
	for _, p := range b.model.Pools {
		usable := p.Launchable.Clone()
		for t := range p.Types {
			tm := &p.Types[t]
			within := p.NodesLeft > 0 && tm.Amounts.Fits(p.Left)
			for a := tm.First; a < tm.End; a++ {
				o := p.Offerings[a]
				if !within || !o.HasPrice() || o.Reservation != "" && b.reserved[o.Reservation] <= 0 {
					usable.Clear(a)
				}
			}
		}
		b.usable = append(b.usable, usable)
	}
}

// member returns a list with a class as its only member.
func (b *launcher) member(cl *model.PodClass, st *model.Stage) []member {
	b.members = append(b.members, member{cl, st})
	n := len(b.members)
	return b.members[n-1 : n : n]
}

// sold returns the offerings of a pool that can be launched for what is admitted. They are valid
// until the next call.
func (b *launcher) sold(at int, admitted *model.Admitted) model.Bitset {
	usable := b.usable[at]
	for len(b.scratch) < len(usable) {
		b.scratch = append(b.scratch, 0)
	}
	offerings := b.scratch[:len(usable)]
	clear(offerings)
	for t := range admitted.Terms {
		offerings.Or(admitted.Terms[t].Offerings)
	}
	offerings.And(usable)
	return offerings
}

// smallMax is up to how many pods it is worth to solve the problem a second time without the
// nodes' fee, and to exchange the nodes of pods for those that are left over.
const smallMax = 300

// offeringOf returns the NodePool and the offering that a bin of the problem stands for.
func (b *launcher) offeringOf(bin int32) (pool, offering int) {
	at, _ := slices.BinarySearch(b.base, int(bin)+1)
	return at - 1, int(bin) - b.base[at-1]
}
