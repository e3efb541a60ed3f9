package catalog

import "fmt"

// Draw is what a node of an offering takes of a supply, which is something that the cloud has only so
// much of and that several offerings share: the cores that a quota allows of a family, the addresses
// of a subnet.
type Draw struct {
	// Supply is the name of the supply. It is the same supply wherever the name is the same.
	Supply string
	// Units is what one node takes, Left what nodes that the cloud has been asked for leave.
	Units, Left int
}

// String says that too little is left.
func (d Draw) String() string {
	return fmt.Sprintf("supply %s has %d left, and a node takes %d", d.Supply, max(0, d.Left), d.Units)
}

// Units returns what a node of the offering takes of a supply.
func (o *Offering) Units(supply string) int {
	for _, d := range o.Draws {
		if d.Supply == supply {
			return d.Units
		}
	}
	return 0
}

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
