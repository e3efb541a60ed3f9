package model

import (
	"slices"
)

// Market is the offerings of a pool by capacity type, zone and price, for narrowing launches.
type Market struct {
	Prices []float64         // by offering
	Sold   map[string]Bitset // by capacity type: offerings that no reservation is for
	Zones  []string          // in order
	In     []Bitset          // by zone: its offerings
	// Narrowed is scratch memory. Cheap and Dear are what Split found.
	Narrowed, Cheap, Dear Bitset
}

// Market returns the offerings by capacity type, zone and price. It is made when first asked for.
func (p *Pool) Market() *Market {
	if p.sale != nil {
		return p.sale
	}
	n := len(p.Offerings)
	m := &Market{Prices: make([]float64, n), Sold: map[string]Bitset{}, Narrowed: NewBitset(n), Cheap: NewBitset(n), Dear: NewBitset(n)}
	for _, o := range p.Offerings {
		if o.Zone != "" && !slices.Contains(m.Zones, o.Zone) {
			m.Zones, m.In = append(m.Zones, o.Zone), append(m.In, NewBitset(n))
		}
	}
	slices.Sort(m.Zones)
	for a, o := range p.Offerings {
		m.Prices[a] = o.Price()
		if o.Zone != "" {
			m.In[slices.Index(m.Zones, o.Zone)].Set(a)
		}
		if o.Reservation != "" {
			continue
		}
		if m.Sold[o.CapacityType] == nil {
			m.Sold[o.CapacityType] = NewBitset(n)
		}
		m.Sold[o.CapacityType].Set(a)
	}
	p.sale = m
	return m
}

// Split divides the offerings that a planned node has left into those that cost at most priceMax
// (Cheap) and the others (Dear).
func (m *Market) Split(b *PlannedNode, priceMax float64) {
	clear(m.Cheap)
	clear(m.Dear)
	for _, t := range b.Types {
		for a := b.Pool.Types[t].First; a < b.Pool.Types[t].End; a++ {
			switch {
			case !b.Offerings.Has(a):
			case m.Prices[a] <= priceMax:
				m.Cheap.Set(a)
			default:
				m.Dear.Set(a)
			}
		}
	}
}
