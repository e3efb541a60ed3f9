// Package catalog describes what can be launched: instance types, where and how they are
// offered, and at what price. It is the provider's answer in the core's words. It may import
// label and quantity. Read catalog.go first, then supply.go (what is left of what offerings share) and shortage.go
// (offerings that ran short).
package catalog

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// Type is one instance type. Types are shared between snapshots and never changed.
type Type struct {
	Name string
	// Requirements has every label that the type decides. Values that every offering decides
	// (zone, capacity type) are listed with all they can be. Of a label that some offerings
	// decide it says what holds of the others.
	Requirements label.Requirements
	Capacity     quantity.List
	// Overhead is what system, kubelet and eviction threshold keep from pods.
	Overhead quantity.List
	// VolumeLimits are how many volumes of each CSI driver a node can attach, by the resource name
	// of quantity.AttachPrefix. Of a driver that is not there the number is not known before its
	// node has said it.
	VolumeLimits quantity.List
	Offerings    []Offering
}

// Allocatable returns what pods can use: capacity less overhead, and memory less what
// huge pages pin, never below zero.
func (t *Type) Allocatable() quantity.List {
	free := t.Capacity.MinusFloor(t.Overhead)
	if pinned := t.pinned(); pinned > 0 {
		free[quantity.Memory] = max(0, quantity.Sub(free[quantity.Memory], pinned))
	}
	return free
}

// FillRoom writes to free what pods can use, in a space.
func (t *Type) FillRoom(space quantity.Space, free quantity.Vector) {
	space.FillRoom(free, t.Capacity)
	for i, name := range space {
		if free[i] < quantity.Unlimited {
			free[i] = max(0, quantity.Sub(free[i], t.Overhead[name]))
		}
		if name == quantity.Memory {
			free[i] = max(0, quantity.Sub(free[i], t.pinned()))
		}
		if limit, ok := t.VolumeLimits[name]; ok {
			free[i] = limit
		}
	}
}

// pinned returns the memory that huge pages take.
func (t *Type) pinned() (sum int64) {
	for name, amount := range t.Capacity {
		if strings.HasPrefix(name, "hugepages-") {
			sum = quantity.Add(sum, amount)
		}
	}
	return sum
}

// Offering is a type in one zone at one capacity type. Zone is empty where the cloud
// has none.
type Offering struct {
	Zone         string
	CapacityType string
	// Labels are further labels that this offering alone decides.
	Labels map[string]string
	// PriceHourly is in dollars; meaningless unless Priced.
	PriceHourly float64
	Priced      bool
	// Available: it is sold, and there was no shortage lately. A reservation that is used up is
	// available all the same, with nothing left: see Launchable.
	Available bool
	// Risk is how much dearer than its price the offering counts as, as a share of the
	// price, because it was short or instances were taken back lately.
	Risk float64
	// Reservation is what was reserved, for capacity type reserved; Left is how many more
	// nodes it covers.
	Reservation string
	Left        int
	// Group is the placement group that instances go into; empty: none.
	Group string
	// ID is the provider's own name of the offering, by which it differs from others of its type, zone and
	// capacity type; empty: it has none.
	ID string `json:",omitempty"`
	// Draws are what a node takes of supplies that offerings share.
	Draws []Draw `json:",omitempty"`
}

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

// Launchable reports whether an instance can be launched now: the offering is available, something
// is left of its reservation, and its supplies have what a node takes.
func (o *Offering) Launchable() bool {
	return o.Available && (o.Reservation == "" || o.Left > 0) &&
		!slices.ContainsFunc(o.Draws, func(d Draw) bool { return d.Left < d.Units })
}

// Requirements returns the labels that the offering decides.
func (o *Offering) Requirements() label.Requirements {
	r := label.OfLabels(o.Labels)
	if o.Zone != "" {
		r[label.Zone] = label.In(o.Zone)
	}
	r[label.CapacityType] = label.In(o.CapacityType)
	return r
}

// Value returns the value of a label that the offering, rather than its type, decides.
func (o *Offering) Value(key string) (value string, decides bool) {
	switch {
	case key == label.CapacityType:
		return o.CapacityType, true
	case key == label.Zone && o.Zone != "":
		return o.Zone, true
	}
	value, decides = o.Labels[key]
	return value, decides
}

// Decides reports whether the offering, rather than its type, decides a label.
func (o *Offering) Decides(key string) bool {
	_, decides := o.Value(key)
	return decides
}

// PriceMax is more than anything costs, in dollars an hour, and small enough for sums.
const PriceMax = 1e9

// HasPrice reports whether the price is known, and can be one: a provider may read anything.
func (o *Offering) HasPrice() bool { return o.Priced && o.PriceHourly >= 0 && o.PriceHourly < PriceMax }

// Price returns the price for comparing: an unknown price is above every known one.
func (o *Offering) Price() float64 {
	if !o.HasPrice() {
		return math.Inf(1)
	}
	return o.PriceHourly
}

// Cost returns what the offering counts as when the best is chosen: its price and its risk.
func (o *Offering) Cost() float64 { return o.Price() * (1 + o.Risk) }

// Choice is one thing that can be launched: a type and one of its offerings.
type Choice struct {
	Type     *Type
	Offering *Offering
}

// Choices returns what can be launched that satisfies the requirements and holds the requests, least cost
// first; equal costs in the order of type name, zone, capacity type. Keys that neither
// type nor offering decides do not count against them.
func Choices(types []*Type, want label.Requirements, requests quantity.List) []Choice {
	var choices []Choice
	for _, t := range types {
		before := len(choices)
		for i := range t.Offerings {
			if o := &t.Offerings[i]; o.Launchable() && t.satisfies(o, want) {
				choices = append(choices, Choice{t, o})
			}
		}
		if len(choices) > before && !requests.Fits(t.Allocatable()) {
			choices = choices[:before]
		}
	}
	slices.SortStableFunc(choices, func(a, b Choice) int {
		return cmp.Or(cmp.Compare(a.Offering.Cost(), b.Offering.Cost()), cmp.Compare(a.Type.Name, b.Type.Name),
			cmp.Compare(a.Offering.Zone, b.Offering.Zone), cmp.Compare(a.Offering.CapacityType, b.Offering.CapacityType))
	})
	return choices
}

// Offered returns the offerings that satisfy the requirements, those that are not available included.
func Offered(types []*Type, want label.Requirements) []*Offering {
	var offered []*Offering
	for _, t := range types {
		for i := range t.Offerings {
			if o := &t.Offerings[i]; t.satisfies(o, want) {
				offered = append(offered, o)
			}
		}
	}
	return offered
}

// satisfies reports whether the type, as one of its offerings has it, does not conflict with
// the requirements. What the offering says of a key counts, not what the type says.
func (t *Type) satisfies(o *Offering, want label.Requirements) bool {
	for key, wanted := range want {
		if value, own := o.Value(key); own {
			if !wanted.Allows(value) {
				return false
			}
		} else if said, has := t.Requirements[key]; has && !said.Overlaps(wanted) {
			return false
		}
	}
	return true
}
