package disperse

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
)

// A domain is what can be lost at once: a zone, or a spot offering (an instance type in a zone).
type domain struct {
	zone string
	typ  string // of a spot offering; empty: the whole zone
}

// where is the domains that a node is in, by number; none: it has no such domain.
type where struct{ zone, spot int32 }

const none = -1

// domains is the domains of each planned node, and how many pods of which workload each domain has.
type domains struct {
	size   []int32 // Board.size
	row    []int32 // by class: which row of counts; none: it is no workload
	counts []int32 // by workload and domain
	n      int     // how many domains there are
	// percent is how much of a workload a domain should have at most.
	percent int32
	at      []where // by node
	fixed   []bool  // by node: its domains cannot be chosen, and no pod comes from another domain
}

// count returns how many pods of a workload a domain has.
func (d *domains) count(c, domain int32) *int32 { return &d.counts[int(d.row[c])*d.n+int(domain)] }

// limit returns how many pods of a workload one domain should have at most.
func (d *domains) limit(c int32) int32 {
	if d.size[c] <= fewPods {
		return (d.size[c] + 1) / 2
	}
	return d.size[c] * d.percent / 100
}

// room returns how many pods of a class may move to a node from another because of their domains.
func (d *domains) room(c int32, to, from int) int32 {
	t, f := d.at[to], d.at[from]
	if t == f || d.row[c] == none {
		return math.MaxInt32
	}
	if d.fixed[to] {
		return 0
	}
	room := int32(math.MaxInt32)
	if t.zone != f.zone && t.zone != none {
		room = d.limit(c) - *d.count(c, t.zone)
	}
	if t.spot != f.spot && t.spot != none {
		room = min(room, d.limit(c)-*d.count(c, t.spot))
	}
	return room
}

// move notes that n pods of a class move from one node to another.
func (d *domains) move(c int32, from, to int, n int32) {
	if d.row[c] != none {
		d.add(c, d.at[from], -n)
		d.add(c, d.at[to], n)
	}
}

// add notes that a node in these domains has n more pods of a workload.
func (d *domains) add(c int32, at where, n int32) {
	if at.zone != none {
		*d.count(c, at.zone) += n
	}
	if at.spot != none {
		*d.count(c, at.spot) += n
	}
}

// excess returns how many pods of a workload too many a domain would have with n more.
func (d *domains) excess(c, domain, n int32) int32 {
	if domain == none || d.row[c] == none {
		return 0
	}
	return max(0, *d.count(c, domain)+n-d.limit(c))
}

// excessOfAll returns how many pods of workloads are too many in their domains.
func (d *domains) excessOfAll() (n int32) {
	for c := range d.size {
		for k := range d.n {
			n += d.excess(int32(c), int32(k), 0)
		}
	}
	return n
}

// relief returns how many pods of a class are no longer too many in their domains if n move from some domains to others.
func (d *domains) relief(c int32, from, to where, n int32) (less int32) {
	if from.zone != to.zone {
		less += d.excess(c, from.zone, 0) - d.excess(c, from.zone, -n) + d.excess(c, to.zone, 0) - d.excess(c, to.zone, n)
	}
	if from.spot != to.spot {
		less += d.excess(c, from.spot, 0) - d.excess(c, from.spot, -n) + d.excess(c, to.spot, 0) - d.excess(c, to.spot, n)
	}
	return less
}

// numbering gives domains their numbers.
type numbering struct {
	of    map[domain]int32
	spots [][]int32 // by pool and offering: the number of the spot offering, plus one; 0: not known yet
	zones []string
}

func newNumbering(pools []*model.Pool) *numbering {
	m := &numbering{of: map[domain]int32{}, spots: make([][]int32, len(pools))}
	for i, p := range pools {
		m.spots[i] = make([]int32, len(p.Offerings))
	}
	return m
}

func (m *numbering) number(d domain) int32 {
	n, ok := m.of[d]
	if !ok {
		n = int32(len(m.of))
		m.of[d] = n
	}
	return n
}

// zone returns the index in zones of a zone.
func (m *numbering) zone(name string) int {
	i := slices.Index(m.zones, name)
	if i < 0 {
		i = len(m.zones)
		m.zones = append(m.zones, name)
	}
	return i
}

// place returns the domains of an offering of a pool.
func (m *numbering) place(pool *model.Pool, index, offering int) where {
	o := pool.Offerings[offering]
	if o.Zone == "" {
		return where{none, none}
	}
	at := where{m.number(domain{zone: o.Zone}), none}
	if o.CapacityType != label.Spot {
		return at
	}
	known := &m.spots[index][offering]
	if *known == 0 {
		*known = m.number(domain{o.Zone, pool.Types[pool.TypeOf[offering]].Name}) + 1
	}
	at.spot = *known - 1
	return at
}
