package model

import (
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// Label says which offerings have which value of one label key. Nodes of those in absent do not
// have the label; those in without leave it open.
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
	levels  []float64            // by value: the mean price of nodes with it; made when asked for
}

// note records that the offerings from a to before end have the values that their type's
// requirement allows, or that they do not have the label.
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

// carriers returns the offerings that are noted for a value, as a set to add to.
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

// Requirement returns the requirement for the i-th value of the key.
func (k *Label) Requirement(key string, i int) label.Requirements {
	for len(k.pins) < len(k.Values) {
		k.pins = append(k.pins, label.Requirements{key: label.In(k.Values[len(k.pins)])})
	}
	return k.pins[i]
}

// allow writes to mask the offerings that q allows: those with an allowed value, those that leave
// the label open, and those without the label if q allows that.
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
