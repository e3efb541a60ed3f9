package cluster

import (
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// Prices finds what the nodes of a snapshot cost.
type Prices struct {
	reservationKey string
	types          map[string]map[string]*catalog.Type // by pool and name
}

// NewPrices returns the prices of a snapshot's nodes.
func NewPrices(s *Snapshot) *Prices {
	p := &Prices{reservationKey: s.ReservationKey, types: map[string]map[string]*catalog.Type{}}
	for i := range s.Pools {
		byName := map[string]*catalog.Type{}
		for _, t := range s.Pools[i].Types {
			byName[t.Name] = t
		}
		p.types[s.Pools[i].Name] = byName
	}
	return p
}

// Of returns the price per hour, in dollars, of the offering that the node's labels name.
// The price is not known of nodes that are not ours, and of those for which the cloud has not
// answered yet.
func (p *Prices) Of(n *Node) (dollars float64, known bool) {
	t := p.types[n.Pool][n.Labels[label.InstanceType]]
	if t == nil {
		return 0, false
	}
	zone, capacity := n.Labels[label.Zone], n.Labels[label.CapacityType]
	for i := range t.Offerings {
		o := &t.Offerings[i]
		if o.Zone == zone && o.CapacityType == capacity && o.HasPrice() &&
			(o.Reservation == "" || o.Reservation == n.Labels[p.reservationKey]) {
			return o.PriceHourly, true
		}
	}
	return 0, false
}
