package savings

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// lowest are the instance types of NodePools, by their names, with each offering at the lowest price that it had.
type lowest map[string]map[string]*catalog.Type

// learn takes in the instance types of a snapshot.
func (o lowest) learn(snap *cluster.Snapshot) {
	for i := range snap.Pools {
		pool := &snap.Pools[i]
		if o[pool.Name] == nil {
			o[pool.Name] = map[string]*catalog.Type{}
		}
		for _, t := range pool.Types {
			known := o[pool.Name][t.Name]
			if known == nil {
				first := *t
				first.Offerings = nil
				known = &first
				o[pool.Name][t.Name] = known
			}
			for k := range t.Offerings {
				lower(known, &t.Offerings[k])
			}
		}
	}
}

// lower takes an offering in.
func lower(t *catalog.Type, o *catalog.Offering) {
	at := slices.IndexFunc(t.Offerings, func(k catalog.Offering) bool {
		return k.Zone == o.Zone && k.CapacityType == o.CapacityType && k.Reservation == o.Reservation && k.Group == o.Group
	})
	if at < 0 {
		first := *o
		first.Risk = 0
		t.Offerings = append(t.Offerings, first)
		return
	}
	known := &t.Offerings[at]
	if o.HasPrice() && (!known.HasPrice() || o.PriceHourly < known.PriceHourly) {
		known.PriceHourly, known.Priced = o.PriceHourly, o.Priced
	}
	known.Available, known.Left = known.Available || o.Available, max(known.Left, o.Left)
}

// pools returns NodePools with all that was offered. Those that launched a node are taken to be ready.
func (o lowest) pools(list []cluster.Pool, launches []*windowLaunch) []cluster.Pool {
	list = slices.Clone(list)
	for i := range list {
		p := &list[i]
		if slices.ContainsFunc(launches, func(l *windowLaunch) bool { return l.launch.Pool == p.Name }) {
			p.Unready = ""
		}
		types := make([]*catalog.Type, 0, len(p.Types))
		for _, t := range p.Types {
			types = append(types, o[p.Name][t.Name])
		}
		p.Types = types
	}
	return list
}
