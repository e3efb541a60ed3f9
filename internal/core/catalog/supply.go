package catalog

// Supplies is how many units are left of each supply.
type Supplies map[string]int

// Add notes the supplies that an offering draws on. Where offerings disagree about what is left, the
// least counts. The map is made when it is first needed.
func (s *Supplies) Add(o *Offering) {
	for _, d := range o.Draws {
		if *s == nil {
			*s = Supplies{}
		}
		if left, had := (*s)[d.Supply]; !had || d.Left < left {
			(*s)[d.Supply] = d.Left
		}
	}
}

// Short returns the first supply that has not enough left for a node of an offering, and how much it
// has; ok: there is none.
func (s Supplies) Short(o *Offering) (d Draw, ok bool) {
	for _, d := range o.Draws {
		if left := s[d.Supply]; left < d.Units {
			d.Left = left
			return d, false
		}
	}
	return Draw{}, true
}

// Take takes what a node of an offering takes, whether or not there is as much.
func (s Supplies) Take(o *Offering) {
	for _, d := range o.Draws {
		s[d.Supply] -= d.Units
	}
}
