package model

import (
	"slices"
)

// Market is what launches of a pool are narrowed by.
type Market struct {
	Prices []float64         // by offering
	Sold   map[string]Bitset // by capacity type: offerings that no reservation is for
	Zones  []string          // in order
	In     []Bitset          // by zone: its offerings
	// Narrowed, cheap and dear are memory.
	Narrowed, Cheap, Dear Bitset
}

// Market returns what launches of the pool are narrowed by, which is made when asked for.
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

// Split sorts the offerings of the types that are left into cheap and dear.
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
