package wire

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	providerv1 "github.com/dovetail-sh/dovetail/api/provider/v1"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
)

// unitsMax is the most of a supply that counts, low enough for sums.
const unitsMax = 1 << 50

// Supplies returns the messages for what is left of supplies, by name.
func Supplies(left catalog.Supplies) (out []*providerv1.Supply) {
	for _, name := range slices.Sorted(maps.Keys(left)) {
		out = append(out, &providerv1.Supply{Name: name, Left: int64(max(0, left[name]))})
	}
	return out
}

// ParseSupplies reads what a page says of supplies, whose names begin with the scope then, into left. With
// fresh none of them may be known.
func ParseSupplies(in []*providerv1.Supply, scope string, left catalog.Supplies, fresh bool) error {
	seen := make(map[string]bool, len(in))
	for _, s := range in {
		if err := checkID("supply name", s.GetName()); err != nil {
			return err
		}
		name := scoped(scope, s.GetName())
		_, had := left[name]
		switch {
		case seen[name] || had && fresh:
			return fmt.Errorf("supply %s is there twice", s.GetName())
		case s.GetLeft() < 0:
			return fmt.Errorf("supply %s: left is %d; it may be 0 or more", s.GetName(), s.GetLeft())
		}
		seen[name] = true
		if left[name] = int(min(s.GetLeft(), unitsMax)); s.GetGone() {
			delete(left, name)
		}
		if err := checkCount("supplies", len(left), SuppliesMax); err != nil {
			return err
		}
	}
	return nil
}

// scoped returns the name of a supply in the controller's process, where other providers have names of
// their own.
func scoped(scope, name string) string { return scope + "/" + name }

func parseDraws(in []*providerv1.Draw, scope string) ([]catalog.Draw, error) {
	if len(in) == 0 {
		return nil, nil
	}
	if err := checkCount("draws", len(in), drawsMax); err != nil {
		return nil, err
	}
	out := make([]catalog.Draw, len(in))
	for i, d := range in {
		if err := checkID("draws: supply", d.GetSupply()); err != nil {
			return nil, err
		}
		if d.GetUnits() < 1 || d.GetUnits() > unitsMax {
			return nil, fmt.Errorf("draws: units of supply %s is %d; it may be from 1 to %d", d.GetSupply(), d.GetUnits(), int64(unitsMax))
		}
		out[i] = catalog.Draw{Supply: scoped(scope, d.GetSupply()), Units: int(d.GetUnits())}
		if slices.ContainsFunc(out[:i], func(had catalog.Draw) bool { return had.Supply == out[i].Supply }) {
			return nil, fmt.Errorf("draws: supply %s is there twice", d.GetSupply())
		}
	}
	return out, nil
}

// Cover returns the entry with what is left of the supplies that its offerings draw on: itself, if it has
// that already. The error names a supply that is not known.
func (e *Entry) Cover(left catalog.Supplies) (*Entry, error) {
	draws, isOther := 0, false
	for i := range e.Type.Offerings {
		for _, d := range e.Type.Offerings[i].Draws {
			now, known := left[d.Supply]
			if !known {
				return nil, fmt.Errorf("type %s: offering %d draws on supply %s, which no page has", e.Type.Name, i, d.Supply[len(e.scope)+1:])
			}
			draws++
			isOther = isOther || now != d.Left
		}
	}
	if !isOther {
		return e, nil
	}
	t := *e.Type
	t.Offerings = slices.Clone(t.Offerings)
	all := make([]catalog.Draw, 0, draws) // of all offerings, which is one allocation
	for i := range t.Offerings {
		o := &t.Offerings[i]
		first := len(all)
		for _, d := range o.Draws {
			d.Left = left[d.Supply]
			all = append(all, d)
		}
		if len(all) > first {
			o.Draws = all[first:len(all):len(all)]
		}
	}
	return &Entry{Type: &t, scope: e.scope, said: e.said}, nil
}

// SameType reports whether two types of a name have the same message: they are one value, or differ only in
// what is left of supplies. It is much cheaper than the messages.
func SameType(a, b *catalog.Type) bool {
	return a == b || slices.EqualFunc(a.Offerings, b.Offerings, sameOffering) && (isOneMap(a.Requirements, b.Requirements) || a.Requirements.Equal(b.Requirements)) &&
		sameMap(a.Capacity, b.Capacity) && sameMap(a.Overhead, b.Overhead) && sameMap(a.VolumeLimits, b.VolumeLimits)
}

// sameMap is maps.Equal, and quick where there is one map: types that differ in what is left share theirs.
func sameMap[M ~map[K]V, K, V comparable](a, b M) bool { return isOneMap(a, b) || maps.Equal(a, b) }

func isOneMap[M ~map[K]V, K comparable, V any](a, b M) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}

func sameOffering(a, b catalog.Offering) bool {
	return a.Zone == b.Zone && a.CapacityType == b.CapacityType && a.Available == b.Available && a.HasPrice() == b.HasPrice() && (!a.HasPrice() || a.PriceHourly == b.PriceHourly) &&
		a.Reservation == b.Reservation && a.Left == b.Left && a.Group == b.Group && a.ID == b.ID && sameMap(a.Labels, b.Labels) &&
		slices.EqualFunc(a.Draws, b.Draws, func(a, b catalog.Draw) bool { return a.Supply == b.Supply && a.Units == b.Units })
}
