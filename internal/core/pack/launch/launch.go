package launch

import (
	"math"

	"github.com/dovetail-sh/dovetail/internal/core/cover"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/pack/place"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// This file and the next two buy nodes for all pods together: share.go says which pods
// go to which domain, this file states the problem for core/cover, open.go turns its
// answer into launches, pod by pod and rule by rule. What the classes' model got wrong, or
// does not know, is left to first-fit.

// launchRounds bounds how often what was left over is launched for once more.
const launchRounds = 3

// smallMax is up to how many pods it is worth launching once more without the nodes' fee,
// and exchanging places for those that are left over: among few nodes another order of
// things finds other fillings.
const smallMax = 300

// dearness returns what an answer costs, fees included; more than any other if it leaves
// pods out.
func dearness(s *cover.Solution) float64 {
	if len(s.Unplaced) > 0 {
		return math.Inf(1)
	}
	sum := s.Price
	for i := range s.Patterns {
		sum += nodeFee * float64(s.Patterns[i].Times)
	}
	return sum
}

// ruledSearches bounds the local search where rules divide pods into very many small classes:
// more of it takes as long as all the rest, and gains nothing.
const (
	ruledSearches = 250_000
	// Of passes and rounds they need as many as ten times the pods without rules do.
	ruledPasses, ruledImprove = 4, 200
	// ruledPods is from how many pods on there are ever fewer looks.
	ruledPods = 2500
)

// nodeFee is what a node is thought to cost besides its price, in dollars an hour:
// addresses, licences, load on the API server. Without it plans fall to very many very
// small nodes for the last tenth of a percent.
const nodeFee = 0.002

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

// Launch opens launches for the pods that are left. plain is how many pods it had, where no
// rule, preference or limit was in the way and all of them found a place. The bound is of what
// nodes for them cost; 0 where none came with the answer.
func Launch(s *place.State) (bound float64, plain int) {
	b := newLauncher(s)
	for k, key := range s.Topology.Ledger.Keys() {
		if key == label.Hostname {
			b.hostname, b.host = k, s.Topology.Ledger.NewDomain(k)
		}
	}
	for round := range launchRounds {
		b.noteOfferings()
		pods, free := b.divide()
		if pods == 0 {
			break
		}
		if round == 0 && !free && b.launchBatches() {
			continue
		}
		effort := cover.Default(pods)
		if !free {
			effort.Evaluations = min(effort.Evaluations, ruledSearches/(1+pods/ruledPods))
			effort.Passes, effort.Improve = ruledPasses, ruledImprove
		}
		problem := b.problem()
		answer := cover.Solve(problem, effort)
		if pods <= smallMax {
			problem.BinFee = 0
			if other := cover.Solve(problem, effort); dearness(&other) < dearness(&answer) {
				answer = other
			}
		}
		if round == 0 && free && len(answer.Unplaced) == 0 {
			plain = pods
			if b.exact {
				bound = answer.Bound
			}
		}
		if !b.openAll(&answer) {
			break
		}
	}
	return bound, plain
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

// pickedMost is for how many vectors memory is taken at once.
const pickedMost = 256

// problem states the shares and what can be launched for them.
func (b *launcher) problem() *cover.Problem { return b.problemOf(b.shares, b.conflicts()) }

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
	p := &cover.Problem{Dims: len(dims), Bins: make([]cover.Bin, b.bins), BinFee: nodeFee, Classes: make([]cover.Class, 0, len(b.shares))}
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

// dims returns the dimensions that any of the shares asks for.
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

// conflicts returns for each share those that must not be on one node with it.
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

// countedShares returns for each group of the ledger the shares that count in it.
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
