package launch

import (
	"github.com/dovetail-sh/dovetail/internal/core/cover"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// pickedMost is how many vectors share one piece of memory.
const pickedMost = 256

// problem states the shares and what can be launched for them as a problem of core/cover.
func (b *launcher) problemOf(shares []share, conflicts [][]int32) *cover.Problem {
	dims := b.dims()
	slab := []int64{}
	pick := func(v quantity.Vector) []int64 {
		if len(slab)+len(dims) > cap(slab) {
			slab = make([]int64, 0, pickedMost*len(dims))
		}
		from := len(slab)
		for _, d := range dims {
			slab = append(slab, max(0, v[d]))
		}
		return slab[from:len(slab):len(slab)]
	}
	p := &cover.Problem{Dims: len(dims), Bins: make([]cover.Bin, b.bins), BinFee: NodeFee, Classes: make([]cover.Class, 0, len(b.shares))}
	for at, pool := range b.model.Pools {
		for t := range pool.Types {
			tm := &pool.Types[t]
			room := pick(tm.Free)
			for a := tm.First; a < tm.End; a++ {
				if !b.usable[at].Has(a) {
					continue
				}
				o := pool.Offerings[a]
				bin := cover.Bin{Capacity: room, Price: o.Cost()}
				if o.Reservation != "" {
					bin.Left = b.reserved[o.Reservation]
				}
				p.Bins[b.base[at]+a] = bin
			}
		}
	}
	for i := range shares {
		sh := &shares[i]
		p.Classes = append(p.Classes, cover.Class{
			Size: pick(sh.size), Count: sh.count, PerBin: sh.perBin, Bins: sh.bins, Conflicts: conflicts[i],
		})
	}
	return p
}

// dims returns the resources that any of the shares asks for.
func (b *launcher) dims() []int {
	var dims []int
	for d := range b.model.Space {
		for i := range b.shares {
			if b.shares[i].size[d] > 0 {
				dims = append(dims, d)
				break
			}
		}
	}
	return dims
}

// conflicts returns, for each share, those that must not be on one node with it.
func (b *launcher) conflicts() [][]int32 {
	out := make([][]int32, len(b.shares))
	conflict := func(i int, j int32) {
		if x, y := &b.shares[i], &b.shares[j]; i != int(j) && (x.key != y.key || x.domain == y.domain) {
			out[i] = append(out[i], j)
		}
	}
	if b.hostname >= 0 {
		counted := b.countedShares()
		for i := range b.shares {
			c, st := b.shares[i].lead()
			for g := range b.ledger.KeptFrom(c.Index, b.hostname, st.PreferencesFrom) {
				b.model.Meter.Spend(1 + len(counted[g]))
				for _, j := range counted[g] {
					conflict(i, j)
				}
			}
		}
	}
	var mayConflict []int32
	for i := range b.shares {
		if b.shares[i].labelConflict {
			mayConflict = append(mayConflict, int32(i))
		}
	}
	for n, i := range mayConflict {
		c, x := b.shares[i].lead()
		for _, j := range mayConflict[:n] {
			d, y := b.shares[j].lead()
			b.model.Meter.Spend(1 + len(b.model.Pools))
			apart := len(c.Constraints.Ports) > 0 && len(d.Constraints.Ports) > 0 && !model.PortsFree(b.model.Meter, c.Constraints.Ports, d.Constraints.Ports)
			for at := range b.model.Pools {
				apart = apart || openConflict(&x.Admitted[at], &y.Admitted[at])
			}
			if apart {
				conflict(int(i), j)
			}
		}
	}
	return out
}

// countedShares returns, for each group of the ledger, the shares that count in it.
func (b *launcher) countedShares() [][]int32 {
	many, all := make([]int, b.ledger.Groups()), 0
	for i := range b.shares {
		c, _ := b.shares[i].lead()
		for _, g := range b.ledger.CountedIn(c.Index) {
			many[g]++
			all++
		}
	}
	counted, memory := make([][]int32, len(many)), make([]int32, all)
	for g, n := range many {
		counted[g], memory = memory[:0:n], memory[n:]
	}
	for i := range b.shares {
		c, _ := b.shares[i].lead()
		for _, g := range b.ledger.CountedIn(c.Index) {
			counted[g] = append(counted[g], int32(i))
		}
	}
	return counted
}

// openConflict reports whether two classes ask a pool for different values of a key that its
// nodes leave open.
func openConflict(x, y *model.Admitted) bool {
	if len(x.Terms) != 1 || len(y.Terms) != 1 {
		return false
	}
	_, conflict := x.Terms[0].Open.Conflict(y.Terms[0].Open)
	return conflict
}

// NodeFee is what a node costs besides its price, in dollars an hour: addresses, licences, load
// on the API server. Without it plans have very many very small nodes, to save the last tenth
// of a percent.
const NodeFee = 0.002
