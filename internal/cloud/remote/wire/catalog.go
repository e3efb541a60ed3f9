package wire

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	providerv1 "github.com/dovetail-sh/dovetail/api/provider/v1"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// Type returns the message for an instance type.
func Type(t *catalog.Type) *providerv1.Type {
	out := &providerv1.Type{
		Name: t.Name, Requirements: Requirements(t.Requirements),
		Capacity: t.Capacity, Overhead: t.Overhead, VolumeLimits: t.VolumeLimits,
	}
	for i := range t.Offerings {
		out.Offerings = append(out.Offerings, Offering(&t.Offerings[i]))
	}
	return out
}

// Offering returns the message for an offering.
func Offering(o *catalog.Offering) *providerv1.Offering {
	out := &providerv1.Offering{
		Zone: o.Zone, CapacityType: o.CapacityType, Labels: o.Labels, Available: o.Available, Reservation: o.Reservation, Group: o.Group, Id: o.ID,
	}
	for _, d := range o.Draws {
		out.Draws = append(out.Draws, &providerv1.Draw{Supply: d.Supply, Units: int64(d.Units)})
	}
	if o.HasPrice() {
		out.PriceHourly = &o.PriceHourly
	}
	if o.Reservation != "" {
		left := uint32(max(0, min(o.Left, math.MaxInt32)))
		out.Left = &left
	}
	return out
}

// Entry is an instance type as a provider sent it.
type Entry struct {
	Type *catalog.Type
	// scope is what the names of supplies begin with.
	scope string
	// said are the requirements that the provider sent, without what was added.
	said label.Requirements
}

// ParseType reads an instance type, and adds to its requirements what goes without saying: its
// name, and the values of its offerings. The names of supplies begin with the scope. What is left of
// them is not known before Cover.
func ParseType(in *providerv1.Type, scope string) (*Entry, error) {
	if in.GetName() == "" {
		return nil, errors.New("a type has no name")
	}
	if err := checkValue("type name", in.GetName()); err != nil {
		return nil, err
	}
	e, err := parseType(in, scope)
	if err != nil {
		return nil, fmt.Errorf("type %s: %w", in.GetName(), err)
	}
	return e, nil
}

func parseType(in *providerv1.Type, scope string) (*Entry, error) {
	t, e := &catalog.Type{Name: in.GetName()}, &Entry{scope: scope}
	var err error
	if e.said, err = ParseRequirements(in.GetRequirements()); err != nil {
		return nil, err
	}
	if t.Capacity, err = amounts("capacity", in.GetCapacity()); err != nil {
		return nil, err
	}
	if t.Overhead, err = amounts("overhead", in.GetOverhead()); err != nil {
		return nil, err
	}
	if len(in.GetVolumeLimits()) > 0 {
		if t.VolumeLimits, err = amounts("volume_limits", in.GetVolumeLimits()); err != nil {
			return nil, err
		}
	}
	if err := checkCount("offerings", len(in.GetOfferings()), offeringsOfTypeMax); err != nil {
		return nil, err
	}
	for i, o := range in.GetOfferings() {
		offering, err := ParseOffering(o, scope)
		if err != nil {
			return nil, fmt.Errorf("offering %d: %w", i, err)
		}
		t.Offerings = append(t.Offerings, offering)
	}
	return e, e.complete(t)
}

// With returns the type with one offering changed, added or taken away.
func (e *Entry) With(change *providerv1.OfferingChange) (*Entry, error) {
	o, err := ParseOffering(change.GetOffering(), e.scope)
	if err != nil {
		return nil, fmt.Errorf("type %s: change: %w", e.Type.Name, err)
	}
	t := *e.Type
	t.Offerings = slices.Clone(e.Type.Offerings)
	out := &Entry{scope: e.scope, said: e.said}
	key := OfferingKey(&o)
	at := slices.IndexFunc(t.Offerings, func(had catalog.Offering) bool { return OfferingKey(&had) == key })
	switch {
	case change.GetGone() && at < 0: // it was never there: a repeated change
	case change.GetGone():
		t.Offerings = slices.Delete(t.Offerings, at, at+1)
	case at >= 0:
		t.Offerings[at] = o
	case len(t.Offerings) >= offeringsOfTypeMax:
		return nil, fmt.Errorf("type %s: more than %d offerings", t.Name, offeringsOfTypeMax)
	default:
		t.Offerings = append(t.Offerings, o)
	}
	if err := out.complete(&t); err != nil {
		return nil, fmt.Errorf("type %s: %w", t.Name, err)
	}
	return out, nil
}

// ParseOffering reads an offering. The names of supplies begin with the scope.
func ParseOffering(in *providerv1.Offering, scope string) (catalog.Offering, error) {
	o := catalog.Offering{
		Zone: in.GetZone(), CapacityType: in.GetCapacityType(), Available: in.GetAvailable(),
		Reservation: in.GetReservation(), Left: int(min(in.GetLeft(), math.MaxInt32)), Group: in.GetGroup(), ID: in.GetId(),
	}
	if len(in.GetLabels()) > 0 {
		o.Labels = in.GetLabels()
	}
	if in.PriceHourly != nil {
		o.PriceHourly, o.Priced = in.GetPriceHourly(), true
		if !o.HasPrice() {
			return o, fmt.Errorf("price_hourly is %v; it may be 0 or more and less than %g", in.GetPriceHourly(), catalog.PriceMax)
		}
	}
	for _, check := range []error{
		checkValue("zone", o.Zone), checkValue("capacity_type", o.CapacityType), checkLabels(o.Labels),
		checkIDOrNone("reservation", o.Reservation), checkIDOrNone("group", o.Group), checkIDOrNone("id", in.GetId()),
	} {
		if check != nil {
			return o, check
		}
	}
	switch {
	case o.CapacityType == "":
		return o, fmt.Errorf("capacity_type is empty; it may be %s, %s or %s", label.OnDemand, label.Spot, label.Reserved)
	case o.Labels[label.Zone] != "" || o.Labels[label.CapacityType] != "":
		return o, fmt.Errorf("labels have zone or capacity type, which have fields of their own")
	}
	var err error
	o.Draws, err = parseDraws(in.GetDraws(), scope)
	return o, err
}

// complete makes t the entry's type, and adds to its requirements what goes without saying. It
// returns an error where requirements and offerings contradict each other, or an offering is there
// twice.
func (e *Entry) complete(t *catalog.Type) error {
	named := label.In(t.Name)
	if said, ok := e.said[label.InstanceType]; ok && !said.Equal(named) {
		return fmt.Errorf("its requirement of %s is %s, which is not its name", label.InstanceType, said)
	}
	t.Requirements = maps.Clone(e.said)
	t.Requirements[label.InstanceType] = named
	values := map[string][]string{}
	seen := make(map[string]bool, len(t.Offerings))
	for i := range t.Offerings {
		o := &t.Offerings[i]
		key := OfferingKey(o)
		if seen[key] {
			return fmt.Errorf("offering %d is there twice: zone %q, capacity type %q, reservation %q, id %q", i, o.Zone, o.CapacityType, o.Reservation, o.ID)
		}
		seen[key] = true
		for name, decided := range o.Requirements() {
			value, _ := decided.Only()
			said, ok := e.said[name]
			if !ok {
				values[name] = append(values[name], value)
			} else if !said.Allows(value) {
				return fmt.Errorf("offering %d has %s %q, which the type's requirements do not list", i, name, value)
			}
		}
	}
	for name, all := range values {
		t.Requirements[name] = label.In(all...)
	}
	e.Type = t
	return nil
}

// OfferingKey is what identifies an offering of a type.
func OfferingKey(o *catalog.Offering) string {
	if len(o.Labels) == 0 && o.Reservation == "" && o.Group == "" && o.ID == "" {
		return o.Zone + "\x00" + o.CapacityType
	}
	parts := []string{o.Zone, o.CapacityType, o.Reservation, o.Group, o.ID}
	for _, key := range slices.Sorted(maps.Keys(o.Labels)) {
		parts = append(parts, key, o.Labels[key])
	}
	return strings.Join(parts, "\x00")
}

// OfferingRef returns the message that names an offering.
func OfferingRef(instanceType string, o *catalog.Offering) *providerv1.OfferingRef {
	return &providerv1.OfferingRef{
		Type: instanceType, Zone: o.Zone, CapacityType: o.CapacityType, Reservation: o.Reservation, Group: o.Group, Labels: o.Labels, OfferingId: o.ID,
	}
}

// RefKey is the OfferingKey of the offering that a message names.
func RefKey(ref *providerv1.OfferingRef) string {
	return OfferingKey(&catalog.Offering{
		Zone: ref.GetZone(), CapacityType: ref.GetCapacityType(), Reservation: ref.GetReservation(), Group: ref.GetGroup(), Labels: ref.GetLabels(), ID: ref.GetOfferingId(),
	})
}

// Places returns the messages for places that were short.
func Places(places []catalog.Place) []*providerv1.OfferingRef {
	var out []*providerv1.OfferingRef
	for _, p := range places {
		out = append(out, &providerv1.OfferingRef{Type: p.Type, Zone: p.Zone, CapacityType: p.CapacityType, Reservation: p.Reservation, Group: p.Group, OfferingId: p.ID})
	}
	return out
}

// ParsePlaces reads places that were short.
func ParsePlaces(in []*providerv1.OfferingRef) ([]catalog.Place, error) {
	if err := checkCount("places", len(in), placesMax); err != nil {
		return nil, err
	}
	var out []catalog.Place
	for _, ref := range in {
		for _, check := range []error{
			checkValue("type", ref.GetType()), checkValue("zone", ref.GetZone()), checkValue("capacity_type", ref.GetCapacityType()),
			checkIDOrNone("reservation", ref.GetReservation()), checkIDOrNone("group", ref.GetGroup()), checkIDOrNone("offering_id", ref.GetOfferingId()),
		} {
			if check != nil {
				return nil, fmt.Errorf("places: %w", check)
			}
		}
		out = append(out, catalog.Place{Type: ref.GetType(), Zone: ref.GetZone(), CapacityType: ref.GetCapacityType(), Reservation: ref.GetReservation(), Group: ref.GetGroup(), ID: ref.GetOfferingId()})
	}
	return out, nil
}
