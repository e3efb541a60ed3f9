package launch

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/pack/place"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// launcher states what is to be launched as a problem of core/cover. Its bins are the offerings of
// all pools, each pool from a multiple of 64 on.
type launcher struct {
	state  *place.State
	model  *model.Model
	topo   *place.Topology
	ledger *topology.Ledger
	base   []int // by pool: its first bin
	bins   int
	// hostname is the ledger's index of that key, -1 if no rule mentions it; host is a
	// domain of it that no node is in.
	hostname int
	host     int32
	shares   []share
	exact    bool // shares are of pods of one size
	// usable, by pool, are the offerings that can be launched now at a known price, within limits.
	usable   []model.Bitset
	reserved map[string]int // nodes left, by reservation
	scratch  model.Bitset
	right    []uint64 // what is being worked out
	words    model.Slab[uint64]
	openings model.Slab[opening]
	members  []member  // of shares of one class; memory is taken for many at once
	sets     sets      // those worked out lately
	sidesNow []side    // those of the share at hand
	divided  []divided // so are these
}

func newLauncher(s *place.State) *launcher {
	b := &launcher{state: s, model: s.Model, topo: s.Topology, ledger: s.Topology.Ledger, hostname: -1}
	for _, p := range s.Model.Pools {
		b.base = append(b.base, b.bins)
		b.bins += (len(p.Offerings) + 63) &^ 63
	}
	return b
}

// noteOfferings notes what each pool has to sell now, and how many nodes reservations cover.
func (b *launcher) noteOfferings() {
	b.reserved = b.model.ReservationsLeft()
	b.usable = b.usable[:0]
	for _, p := range b.model.Pools {
		usable := p.Buyable.Clone()
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

// member returns a class as the only member of a share.
func (b *launcher) member(cl *model.PodClass, st *model.Stage) []member {
	b.members = append(b.members, member{cl, st})
	n := len(b.members)
	return b.members[n-1 : n : n]
}

// sold returns the offerings that can be launched of a pool for what is admitted. They are good
// until it is asked again.
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

// smallMax is up to how many pods it is worth launching once more without the nodes' fee,
// and exchanging places for those that are left over: among few nodes another order of
// things finds other fillings.
const smallMax = 300

// offeringOf returns the NodePool and the offering that a bin of the problem stands for.
func (b *launcher) offeringOf(bin int32) (pool, offering int) {
	at, _ := slices.BinarySearch(b.base, int(bin)+1)
	return at - 1, int(bin) - b.base[at-1]
}
