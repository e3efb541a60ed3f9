package awssim

import (
	"maps"
	"slices"
	"time"
)

// reservations has the capacity reservations.
type reservations struct {
	network   *network
	instances *instances

	byID map[string]*Reservation
}

// Reservation is capacity that is paid for whether it is used or not.
type Reservation struct {
	ID, InstanceType, Zone string
	// Total is how many instances; Available how many of them are free.
	Total, Available int
	// Match is open or targeted.
	Match string
	// Type is default or capacity-block; End is when a block is over.
	Type          string
	End           time.Time
	Interruptible bool
	Tags          map[string]string
	Owner         string

	cancelled bool
}

func (r *Reservation) state(now time.Time) string {
	switch {
	case r.cancelled:
		return "cancelled"
	case !r.End.IsZero() && !r.End.After(now):
		return "expired"
	default:
		return "active"
	}
}

// unreserve has the instances of a reservation be in none.
func (s *reservations) unreserve(r *Reservation) {
	s.inReservation(r, func(in *instance) { in.reservation = nil })
}

func (s *reservations) inReservation(r *Reservation, do func(*instance)) {
	for _, id := range slices.Sorted(maps.Keys(s.instances.byID)) {
		if in := s.instances.byID[id]; in.reservation != nil && in.reservation.ID == r.ID {
			do(in)
		}
	}
}

// reservationFor returns the reservation that a launch option uses; nil: none.
func (s *reservations) reservationFor(o *launchOption, now time.Time) (*Reservation, *apiError) {
	spec := o.template.data.at("CapacityReservationSpecification")
	id := spec.text("CapacityReservationTarget", "CapacityReservationId")
	market := o.template.data.text("InstanceMarketOptions", "MarketType")
	switch {
	case id != "":
		r := s.byID[id]
		switch {
		case r == nil || r.state(now) != "active":
			return nil, fail("InvalidCapacityReservationId.NotFound", "The capacity reservation '%s' does not exist", id)
		case r.InstanceType != o.instanceType || r.Zone != o.zone:
			return nil, fail("InvalidParameterCombination", "The capacity reservation '%s' is for %s in %s", id, r.InstanceType, r.Zone)
		case r.Type == capacityBlock && market != capacityBlock:
			return nil, fail("InvalidParameterCombination", "The capacity reservation '%s' is a capacity block: the market type must be capacity-block", id)
		case r.Available < 1:
			return nil, fail("ReservationCapacityExceeded", "The requested reservation does not have sufficient compatible and available capacity for this request.")
		}
		return r, nil
	case market == capacityBlock:
		return nil, fail("InvalidParameterCombination", "Launches of capacity blocks must name a capacity reservation")
	case spec.text("CapacityReservationPreference") == "none" || o.capacityType == capacitySpot:
		return nil, nil
	}
	for _, id := range slices.Sorted(maps.Keys(s.byID)) {
		r := s.byID[id]
		if r.Match == "open" && r.Type == "default" && r.state(now) == "active" && r.InstanceType == o.instanceType && r.Zone == o.zone && r.Available > 0 {
			return r, nil
		}
	}
	if spec.text("CapacityReservationPreference") == "capacity-reservations-only" {
		return nil, fail("ReservationCapacityExceeded", "There is no open capacity reservation for this request.")
	}
	return nil, nil
}

func (s *reservations) describeReservations(c *call) (any, error) {
	all, err := byID(c.form.texts("CapacityReservationId"), s.byID, "InvalidCapacityReservationId.NotFound", "capacity reservation")
	if err != nil {
		return nil, err
	}
	return describeAll(c, "capacityReservationSet", 1000, all, described[*Reservation]{
		key: func(r *Reservation) string { return r.ID }, tags: func(r *Reservation) map[string]string { return r.Tags },
		property: func(r *Reservation, filter string) ([]string, bool) {
			switch filter {
			case "state":
				return only(r.state(c.now))
			case "instance-type":
				return only(r.InstanceType)
			case "owner-id":
				return only(r.Owner)
			case "instance-match-criteria":
				return only(r.Match)
			case "availability-zone":
				return only(r.Zone)
			default:
				return nil, false
			}
		},
		write: func(r *Reservation) fields {
			endType := "unlimited"
			if !r.End.IsZero() {
				endType = "limited"
			}
			return fields{
				{"capacityReservationId", r.ID},
				{"ownerId", r.Owner},
				{"instanceType", r.InstanceType},
				{"instancePlatform", "Linux/UNIX"},
				{"availabilityZone", r.Zone},
				{"availabilityZoneId", s.network.zoneID(r.Zone)},
				{"tenancy", "default"},
				{"totalInstanceCount", r.Total},
				{"availableInstanceCount", r.Available},
				{"state", r.state(c.now)},
				{"instanceMatchCriteria", r.Match},
				{"reservationType", r.Type},
				{"interruptible", r.Interruptible},
				{"endDateType", endType},
				{"endDate", r.End},
				{"tagSet", tagSet(r.Tags)},
			}
		},
	})
}
