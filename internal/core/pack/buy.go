package pack

import (
	"math"

	"github.com/dovetail-sh/dovetail/internal/core/cover"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// This file and the next two buy machines for all pods together: share.go says which pods
// go to which domain, this file states the problem for core/cover, open.go turns its
// answer into launches, pod by pod and rule by rule. What the classes' model got wrong, or
// does not know, is left to first-fit.

// buyRounds bounds how often what was left over is bought for once more.
const buyRounds = 3

// smallMax is up to how many pods it is worth buying once more without the machines' fee,
// and exchanging places for those that are left over: among few machines another order of
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
		sum += machineFee * float64(s.Patterns[i].Times)
	}
	return sum
}

// ruledLooks bounds the local search where rules divide pods into very many small classes:
// more of it takes as long as all the rest, and gains nothing.
const (
	ruledLooks = 250_000
	// Of passes and rounds they need as many as ten times the pods without rules do.
	ruledPasses, ruledImprove = 4, 200
	// ruledPods is from how many pods on there are ever fewer looks.
	ruledPods = 2500
)

// machineFee is what a machine is thought to cost besides its price, in dollars an hour:
// addresses, licences, load on the API server. Without it plans fall to very many very
// small machines for the last tenth of a percent.
const machineFee = 0.002

// buyer states what is to be bought as a problem of core/cover. Its bins are the atoms of
// all pools, each pool from a multiple of 64 on.
type buyer struct {
	*solver
	base []int // by pool: its first bin
	bins int
	// hostname is the ledger's index of that key, -1 if no rule mentions it; host is a
	// domain of it that no machine is in.
	hostname int
	host     int32
	shares   []share
	exact    bool // shares are of pods of one size
	// usable, by pool, are the atoms that can be bought now at a known price, within limits.
	usable   []bitset
	reserved map[string]int // machines left, by reservation
	scratch  bitset
	right    []uint64 // what is being worked out
	words    slab[uint64]
	openings slab[opening]
	members  []member  // of shares of one class; memory is taken for many at once
	sets     sets      // those worked out lately
	sidesNow []side    // those of the share at hand
	divided  []divided // so are these
}

// buy opens launches for the pods that are left. plain is how many pods it had, where no
// rule, wish or limit was in the way and all of them found a place. The bound is of what
// machines for them cost; 0 where none came with the answer.
func (s *solver) buy() (bound float64, plain int) {
	b := newBuyer(s)
	for k, key := range s.ledger.Keys() {
		if key == label.Hostname {
			b.hostname, b.host = k, s.ledger.NewDomain(k)
		}
	}
	for round := range buyRounds {
		b.look()
		pods, free := b.divide()
		if pods == 0 {
			break
		}
		if round == 0 && !free && b.loosely() {
			continue
		}
		effort := cover.Default(pods)
		if !free {
			effort.Looks = min(effort.Looks, ruledLooks/(1+pods/ruledPods))
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

func newBuyer(s *solver) *buyer {
	b := &buyer{solver: s, hostname: -1}
	for _, p := range s.model.pools {
		b.base = append(b.base, b.bins)
		b.bins += (len(p.atoms) + 63) &^ 63
	}
	return b
}

// look notes what each pool has to sell now, and how many machines reservations cover.
func (b *buyer) look() {
	b.reserved = b.reservationsLeft()
	b.usable = b.usable[:0]
	for _, p := range b.model.pools {
		usable := p.buyable.clone()
		for t := range p.types {
			tm := &p.types[t]
			within := p.nodesLeft > 0 && tm.capacity.Fits(p.left)
			for a := tm.first; a < tm.end; a++ {
				o := p.atoms[a]
				if !within || !o.HasPrice() || o.Reservation != "" && b.reserved[o.Reservation] <= 0 {
					usable.clear(a)
				}
			}
		}
		b.usable = append(b.usable, usable)
	}
}

// pickedMost is for how many vectors memory is taken at once.
const pickedMost = 256

// problem states the shares and what can be bought for them.
func (b *buyer) problem() *cover.Problem { return b.problemOf(b.shares, b.conflicts()) }

func (b *buyer) problemOf(shares []share, conflicts [][]int32) *cover.Problem {
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
	p := &cover.Problem{Dims: len(dims), Bins: make([]cover.Bin, b.bins), BinFee: machineFee, Classes: make([]cover.Class, 0, len(b.shares))}
	for at, pool := range b.model.pools {
		for t := range pool.types {
			tm := &pool.types[t]
			room := pick(tm.free)
			for a := tm.first; a < tm.end; a++ {
				if !b.usable[at].has(a) {
					continue
				}
				o := pool.atoms[a]
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
func (b *buyer) dims() []int {
	var dims []int
	for d := range b.model.space {
		for i := range b.shares {
			if b.shares[i].size[d] > 0 {
				dims = append(dims, d)
				break
			}
		}
	}
	return dims
}

// conflicts returns for each share those that must not be on one machine with it.
func (b *buyer) conflicts() [][]int32 {
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
			for g := range b.ledger.KeptFrom(c.index, b.hostname, st.wishesFrom) {
				b.model.meter.Spend(1 + len(counted[g]))
				for _, j := range counted[g] {
					conflict(i, j)
				}
			}
		}
	}
	var wary []int32
	for i := range b.shares {
		if b.shares[i].wary {
			wary = append(wary, int32(i))
		}
	}
	for n, i := range wary {
		c, x := b.shares[i].lead()
		for _, j := range wary[:n] {
			d, y := b.shares[j].lead()
			b.model.meter.Spend(1 + len(b.model.pools))
			apart := len(c.shape.Ports) > 0 && len(d.shape.Ports) > 0 && !portsFree(b.model.meter, c.shape.Ports, d.shape.Ports)
			for at := range b.model.pools {
				apart = apart || openConflict(&x.in[at], &y.in[at])
			}
			if apart {
				conflict(int(i), j)
			}
		}
	}
	return out
}

// countedShares returns for each group of the ledger the shares that count in it.
func (b *buyer) countedShares() [][]int32 {
	many, all := make([]int, b.ledger.Groups()), 0
	for i := range b.shares {
		c, _ := b.shares[i].lead()
		for _, g := range b.ledger.CountedIn(c.index) {
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
		for _, g := range b.ledger.CountedIn(c.index) {
			counted[g] = append(counted[g], int32(i))
		}
	}
	return counted
}

// openConflict tells whether two classes ask a pool for different values of a key that its
// machines leave open.
func openConflict(x, y *classIn) bool {
	if len(x.terms) != 1 || len(y.terms) != 1 {
		return false
	}
	_, conflict := x.terms[0].open.Conflict(y.terms[0].open)
	return conflict
}

// level returns what machines with the i-th value of a key cost on average, each by its
// cheapest offering.
func (p *poolModel) level(key string, i int, usable bitset) float64 {
	k, _ := p.decided(key)
	for len(k.levels) < len(k.values) {
		k.levels = append(k.levels, p.levelOf(k.with[len(k.levels)], usable))
	}
	return k.levels[i]
}

func (p *poolModel) levelOf(atoms, usable bitset) float64 {
	sum, n := 0.0, 0
	for t := range p.types {
		best := math.Inf(1)
		for a := p.types[t].first; a < p.types[t].end; a++ {
			if atoms.has(a) && usable.has(a) {
				best = min(best, p.atoms[a].Cost())
			}
		}
		if !math.IsInf(best, 1) {
			sum, n = sum+best, n+1
		}
	}
	if n == 0 {
		return math.Inf(1)
	}
	return sum / float64(n)
}
