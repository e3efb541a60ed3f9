package model

import (
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// Label tells which offerings carry which value of one label key. Those in absent surely
// have none; those in without leave it open.
type Label struct {
	width     int // how many offerings there are
	Values    []string
	At        map[string]int // value → index into values
	Offerings []Bitset
	absent    Bitset
	without   Bitset
	// several: some offering leaves the choice among values open.
	several bool
	pins    []label.Requirements // by value: that it be this one; made when asked for
	levels  []float64            // by value: how dear nodes with it are; made when asked for
}

// note records that the offerings from a to before end carry what their type's word on the
// key allows, or that they have no such label.
func (k *Label) note(a, end int, q label.Requirement) {
	if q.Operator() == label.OpDoesNotExist {
		k.absent.setRange(a, end)
		return
	}
	values := q.Values()
	k.several = k.several || len(values) > 1
	for _, v := range values {
		k.carriers(v).setRange(a, end)
	}
}

// carriers returns the offerings noted so far that have a value.
func (k *Label) carriers(value string) Bitset {
	for i, v := range k.Values[:min(len(k.Values), 4)] { // mostly there are few
		if v == value {
			return k.Offerings[i]
		}
	}
	i, ok := k.At[value]
	if !ok {
		i = len(k.Values)
		k.At[value] = i
		k.Values = append(k.Values, value)
		k.Offerings = append(k.Offerings, NewBitset(k.width))
	}
	return k.Offerings[i]
}

// Requirement returns the requirement that the key be its i-th value.
func (k *Label) Requirement(key string, i int) label.Requirements {
	for len(k.pins) < len(k.Values) {
		k.pins = append(k.pins, label.Requirements{key: label.In(k.Values[len(k.pins)])})
	}
	return k.pins[i]
}

// allow writes to mask the offerings whose value of the key q allows, those that leave it
// open, and those without one if q is content with that.
func (k *Label) allow(q label.Requirement, mask Bitset) {
	copy(mask, k.without)
	if q.AllowsAbsence() {
		mask.Or(k.absent)
	}
	for i, v := range k.Values {
		if q.Allows(v) {
			mask.Or(k.Offerings[i])
		}
	}
}

// DomainChoice is one domain that a node could be in.
type DomainChoice struct {
	Value     string
	Domain    int32
	Offerings Bitset // nil: all
	Appeal    int64
	Price     float64
}
