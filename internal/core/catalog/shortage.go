package catalog

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Place is where a cloud has instances of one type: a zone and a capacity type, and of capacity
// type reserved the reservation. Group is set for what is true of one placement group only; of
// reserved instances it is true whatever their reservation. ID is set for what is true only of the
// offerings with this ID there, whatever their group.
type Place struct {
	Type, Zone, CapacityType string
	Reservation, Group       string
	ID                       string `json:",omitempty"`
}

// Place returns where the offering of a type is, with its ID if it has one. What is true of the place is true
// whatever reservation or placement group instances are in.
func (o *Offering) Place(instanceType string) Place {
	return Place{Type: instanceType, Zone: o.Zone, CapacityType: o.CapacityType, ID: o.ID}
}

// Shortages remembers where clouds were short of instances, and where they took some back. From a
// place that was short nothing is launched for a while. After that, and where instances were taken
// back, it counts as dearer than it is, and less so as time goes by. The zero value remembers
// nothing. It is not safe for concurrent use.
type Shortages struct {
	places map[Place]trouble
}

// trouble is what is remembered of a place.
type trouble struct {
	until time.Time // before which it is short
	risk  float64   // at the time of the last report
	at    time.Time
	// shorts and reclaims are how often each was reported since the place was last as good as others.
	shorts, reclaims int
}

// Shortage is what is remembered of a place.
type Shortage struct {
	Place
	// Until is before when nothing is launched from there; not after the instant asked about: it
	// only counts as dearer.
	Until time.Time
	// Risk is how much dearer it counts as, as a share of the price.
	Risk float64
	// Reported is when it was last reported. Shorts is how often there was no capacity, Reclaims how
	// often an instance was taken back.
	Reported         time.Time
	Shorts, Reclaims int
}

// Known returns what is remembered of all places, sorted by type, zone, capacity type, reservation,
// placement group and ID.
func (s *Shortages) Known(now time.Time) []Shortage {
	var known []Shortage
	for p, t := range s.places {
		if !t.over(now) {
			known = append(known, Shortage{p, t.until, t.riskAt(now), t.at, t.shorts, t.reclaims})
		}
	}
	slices.SortFunc(known, func(a, b Shortage) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.CapacityType, b.CapacityType),
			cmp.Compare(a.Reservation, b.Reservation), cmp.Compare(a.Group, b.Group), cmp.Compare(a.ID, b.ID))
	})
	return known
}

const (
	// riskStep is what one report adds to the price, as a share of it; riskMost is the most
	// that reports come to together.
	riskStep, riskMost = 0.2, 1.0
	riskHalfLife       = 30 * time.Minute
	// riskLeast is so little that the place is forgotten.
	riskLeast = 0.01
	// placesMax bounds the memory; the oldest are forgotten.
	placesMax = 10_000
)

// Short notes that nothing is to be had at a place for so long.
func (s *Shortages) Short(p Place, now time.Time, keep time.Duration) {
	p = p.named()
	t := s.report(p, now)
	t.until = now.Add(keep)
	t.shorts++
	s.places[p] = t
}

// Reclaimed notes that an instance was taken back at a place.
func (s *Shortages) Reclaimed(p Place, now time.Time) {
	p = p.named()
	t := s.report(p, now)
	t.reclaims++
	s.places[p] = t
}

// named returns the place by its ID, if it has one.
func (p Place) named() Place {
	if p.ID != "" {
		p.Group = ""
	}
	return p
}

func (s *Shortages) report(p Place, now time.Time) trouble {
	if s.places == nil {
		s.places = map[Place]trouble{}
	}
	t, had := s.places[p]
	if t.over(now) {
		t.shorts, t.reclaims = 0, 0
	}
	if !had && len(s.places) >= placesMax {
		s.forget(now)
	}
	t.risk = min(riskMost, t.riskAt(now)+riskStep)
	t.at = now
	return t
}

// forget makes room: for what is over, or else for the older half.
func (s *Shortages) forget(now time.Time) {
	var ages []time.Time
	for p, t := range s.places {
		if t.over(now) {
			delete(s.places, p)
			continue
		}
		ages = append(ages, t.at)
	}
	if len(ages) < placesMax {
		return
	}
	slices.SortFunc(ages, time.Time.Compare)
	for p, t := range s.places {
		if !t.at.After(ages[len(ages)/2]) {
			delete(s.places, p)
		}
	}
}

func (t trouble) riskAt(now time.Time) float64 {
	return t.risk * math.Exp2(-now.Sub(t.at).Hours()/riskHalfLife.Hours())
}

func (t trouble) over(now time.Time) bool { return !now.Before(t.until) && t.riskAt(now) < riskLeast }

// Types returns the types with what is remembered of their offerings. What nothing is
// remembered of is returned as it is.
func (s *Shortages) Types(types []*Type, now time.Time) []*Type {
	if len(s.places) == 0 {
		return types
	}
	var out []*Type
	for i, t := range types {
		if withShortages := s.with(t, now); withShortages != t {
			if out == nil {
				out = slices.Clone(types)
			}
			out[i] = withShortages
		}
	}
	if out == nil {
		return types
	}
	return out
}

// with returns the type, or a copy whose offerings say what is remembered.
func (s *Shortages) with(t *Type, now time.Time) *Type {
	withShortages := t
	for i := range t.Offerings {
		o := &t.Offerings[i]
		p := s.at(t.Name, o)
		if p.over(now) {
			continue
		}
		if withShortages == t {
			own := *t
			own.Offerings = slices.Clone(t.Offerings)
			withShortages = &own
		}
		withShortages.Offerings[i].Risk = p.riskAt(now)
		withShortages.Offerings[i].Available = o.Available && !now.Before(p.until)
	}
	return withShortages
}

// at returns what is remembered of an offering: of all of its zone and capacity type, of its placement group
// there, and of its ID.
func (s *Shortages) at(instanceType string, o *Offering) trouble {
	t := s.places[Place{Type: instanceType, Zone: o.Zone, CapacityType: o.CapacityType, Reservation: o.Reservation}]
	if o.Group != "" {
		t = t.and(s.places[Place{Type: instanceType, Zone: o.Zone, CapacityType: o.CapacityType, Group: o.Group}])
	}
	if o.ID != "" {
		t = t.and(s.places[Place{Type: instanceType, Zone: o.Zone, CapacityType: o.CapacityType, Reservation: o.Reservation, ID: o.ID}])
	}
	return t
}

// and returns what two memories of an offering come to: the later end, and the later risk.
func (t trouble) and(o trouble) trouble {
	if o.until.After(t.until) {
		t.until = o.until
	}
	if o.at.After(t.at) {
		t.risk, t.at = o.risk, o.at
	}
	return t
}
