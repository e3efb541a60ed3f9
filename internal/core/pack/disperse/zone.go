package disperse

import (
	"math"
)

// zones is the zone of each planned node, and how many pods of which class are in each zone.
type zones struct {
	size   []int32 // Board.size
	names  []string
	counts []int32 // by class and zone
	at     []int   // by node: the zone; -1: it cannot be chosen
}

// room returns how many pods of a class may move to a node from another because of their zones.
func (z *zones) room(c int32, to, from int) int32 {
	if z.at[to] == z.at[from] || z.size[c] < 2 {
		return math.MaxInt32
	}
	if z.at[to] < 0 {
		return 0
	}
	return zoneLimit(z.size[c]) - z.counts[int(c)*len(z.names)+z.at[to]]
}

// move notes that n pods of a class move from one node to another.
func (z *zones) move(c int32, from, to int, n int32) {
	for _, m := range [...]struct {
		node int
		n    int32
	}{{from, -n}, {to, n}} {
		if at := z.at[m.node]; at >= 0 {
			z.counts[int(c)*len(z.names)+at] += m.n
		}
	}
}

// number returns the number of a zone.
func (z *zones) number(name string) int {
	for d, other := range z.names {
		if other == name {
			return d
		}
	}
	z.names = append(z.names, name)
	return len(z.names) - 1
}

// excess returns how many pods of a workload too many a zone would have with n more.
func (z *zones) excess(c int32, zone int, n int32) int32 {
	if z.size[c] < 2 {
		return 0
	}
	return max(0, z.counts[int(c)*len(z.names)+zone]+n-zoneLimit(z.size[c]))
}
