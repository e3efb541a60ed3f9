package journal

import (
	"reflect"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// nodePrices are what the nodes of the last snapshot cost. Snapshots that follow one another have most nodes at the same
// places, with the same labels, and to find a price takes longer than to see that.
type nodePrices struct {
	reservationKey string
	pools          []cluster.Pool
	nodes          []nodePrice
}

// nodePrice is what a node of a NodePool with some labels costs; labels is where these are.
type nodePrice struct {
	pool    string
	labels  map[string]string
	dollars float64
	known   bool
}

// of returns what the nodes of a snapshot cost, until the next call.
func (x *nodePrices) of(s *cluster.Snapshot) []nodePrice {
	if !x.sells(s) {
		x.reservationKey, x.pools, x.nodes = s.ReservationKey, s.Pools, nil
	}
	last := x.nodes
	x.nodes = make([]nodePrice, len(s.Nodes))
	var prices *cluster.Prices
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if i < len(last) && last[i].pool == n.Pool && reflect.ValueOf(last[i].labels).Pointer() == reflect.ValueOf(n.Labels).Pointer() {
			x.nodes[i] = last[i]
			continue
		}
		if prices == nil {
			prices = cluster.NewPrices(s)
		}
		dollars, known := prices.Of(n)
		x.nodes[i] = nodePrice{n.Pool, n.Labels, dollars, known}
	}
	return x.nodes
}

// sells reports whether the NodePools of a snapshot surely have the instance types of the last one.
func (x *nodePrices) sells(s *cluster.Snapshot) bool {
	if x.nodes == nil || x.reservationKey != s.ReservationKey || len(x.pools) != len(s.Pools) {
		return false
	}
	for i := range s.Pools {
		a, b := &x.pools[i], &s.Pools[i]
		if a.Name != b.Name || len(a.Types) != len(b.Types) || len(a.Types) > 0 && &a.Types[0] != &b.Types[0] {
			return false
		}
	}
	return true
}
