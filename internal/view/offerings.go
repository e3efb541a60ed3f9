package view

import (
	"cmp"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// Offerings is which instance types in which zones are short of capacity, or count as dearer because
// they were lately.
type Offerings struct {
	Head
	// Offered is how many offerings there are of all NodePools' instance types, Short how many of
	// them nothing is launched from now.
	Offered   int        `json:"offered"`
	Short     int        `json:"short"`
	Offerings []Offering `json:"offerings"`
}

// Offering is an instance type in a zone at a capacity type.
type Offering struct {
	InstanceType string `json:"instanceType"`
	Zone         string `json:"zone,omitempty"`
	CapacityType string `json:"capacityType"`
	Reservation  string `json:"reservation,omitempty"`
	Group        string `json:"placementGroup,omitempty"`
	// ID is the provider's own name, where it has one.
	ID string `json:"id,omitempty"`
	// PriceHourly is 0 if HasPrice is false: it is not known.
	PriceHourly float64 `json:"hourlyDollars"`
	HasPrice    bool    `json:"hasPrice"`
	// Short: nothing is launched from it. RiskShare is how much dearer it counts as.
	Short     bool    `json:"short"`
	RiskShare float64 `json:"riskShare"`
	// Until is until when it is short; Learned is from what that is known, Reported since when.
	Until    time.Time `json:"until,omitzero"`
	Learned  string    `json:"learned"`
	Reported time.Time `json:"reported,omitzero"`
	// Nodes is how many nodes of it there are.
	Nodes int `json:"nodes"`
}

// OfferingsOf returns the offerings that are short or count as dearer, by type, zone and capacity type.
func OfferingsOf(s *State) Offerings {
	v := Offerings{Head: s.head("Offerings"), Offerings: []Offering{}}
	b := &offeringsBuilder{state: s, out: &v, known: map[catalog.Place]*catalog.Shortage{}, nodes: map[catalog.Place][]map[string]string{}, seen: map[catalog.Place]bool{}}
	for i := range s.Shortages {
		b.known[s.Shortages[i].Place] = &s.Shortages[i]
	}
	for i := range s.Snapshot.Nodes {
		l := s.Snapshot.Nodes[i].Labels
		at := catalog.Place{Type: l[label.InstanceType], Zone: l[label.Zone], CapacityType: l[label.CapacityType]}
		b.nodes[at] = append(b.nodes[at], l)
	}
	for i := range s.Snapshot.Pools {
		b.addPool(&s.Snapshot.Pools[i])
	}
	slices.SortFunc(v.Offerings, func(a, b Offering) int {
		return cmp.Or(cmp.Compare(a.InstanceType, b.InstanceType), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.CapacityType, b.CapacityType),
			cmp.Compare(a.Reservation, b.Reservation), cmp.Compare(a.Group, b.Group), cmp.Compare(a.ID, b.ID))
	})
	return v
}

type offeringsBuilder struct {
	state *State
	out   *Offerings
	known map[catalog.Place]*catalog.Shortage
	nodes map[catalog.Place][]map[string]string // the labels of each
	seen  map[catalog.Place]bool
}

// addPool adds the offerings of a pool's instance types that no pool before it had.
func (b *offeringsBuilder) addPool(p *cluster.Pool) {
	for _, t := range p.Types {
		for i := range t.Offerings {
			o := &t.Offerings[i]
			place := catalog.Place{Type: t.Name, Zone: o.Zone, CapacityType: o.CapacityType, Reservation: o.Reservation, Group: o.Group, ID: o.ID}
			if b.seen[place] {
				continue
			}
			b.seen[place] = true
			b.out.Offered++
			v := b.offering(place, o)
			if v.Short {
				b.out.Short++
			}
			if v.Short || v.RiskShare > 0 {
				b.out.Offerings = append(b.out.Offerings, v)
			}
		}
	}
}

func (b *offeringsBuilder) offering(p catalog.Place, o *catalog.Offering) Offering {
	v := Offering{
		InstanceType: p.Type, Zone: p.Zone, CapacityType: p.CapacityType, Reservation: p.Reservation, Group: p.Group, ID: p.ID,
		HasPrice: o.HasPrice(), Short: !o.Launchable(), RiskShare: o.Risk,
		Nodes: b.nodesOf(p.Type, o),
	}
	if v.HasPrice {
		v.PriceHourly = o.PriceHourly
	}
	known := b.known[catalog.Place{Type: p.Type, Zone: p.Zone, CapacityType: p.CapacityType, Reservation: p.Reservation, ID: p.ID}]
	if known == nil && p.ID != "" {
		known = b.known[catalog.Place{Type: p.Type, Zone: p.Zone, CapacityType: p.CapacityType, Reservation: p.Reservation}]
	}
	if known == nil && p.Group != "" {
		known = b.known[catalog.Place{Type: p.Type, Zone: p.Zone, CapacityType: p.CapacityType, Group: p.Group}]
	}
	v.Learned = learned(known, o)
	if known == nil {
		return v
	}
	v.Reported, v.RiskShare = known.Reported, known.Risk // the snapshot may be older
	if known.Until.After(b.state.Snapshot.At) {
		v.Short, v.Until = true, known.Until
	}
	return v
}

// nodesOf returns how many nodes of an offering there are. One with an ID has those with its labels.
func (b *offeringsBuilder) nodesOf(instanceType string, o *catalog.Offering) (n int) {
	all := b.nodes[catalog.Place{Type: instanceType, Zone: o.Zone, CapacityType: o.CapacityType}]
	if o.ID == "" {
		return len(all)
	}
	for _, labels := range all {
		if _, ok := label.OfLabels(o.Labels).Matches(labels); ok {
			n++
		}
	}
	return n
}

// learned says from what it is known that an offering is short or dearer.
func learned(known *catalog.Shortage, o *catalog.Offering) string {
	used := slices.IndexFunc(o.Draws, func(d catalog.Draw) bool { return d.Left < d.Units })
	switch {
	case known == nil && o.Available && used >= 0:
		return o.Draws[used].String()
	case known == nil && o.Reservation != "" && o.Left <= 0:
		return "the reservation is used up"
	case known == nil:
		return "the provider says that it is not available"
	case known.Shorts > 0 && known.Reclaims > 0:
		return reports(known.Shorts) + "; " + counted(known.Reclaims, "instance") + " taken back"
	case known.Reclaims > 0:
		return counted(known.Reclaims, "instance") + " taken back"
	default:
		return reports(known.Shorts)
	}
}

// reports says how often an offering was short: a launch found no capacity, or the cloud announced that
// it takes an instance away.
func reports(n int) string { return counted(n, "time") + " no capacity at a launch, or a notice" }
