package awssim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Reservation is capacity that is paid for whether it is used or not.
type Reservation struct {
	ID, InstanceType, Zone string
	// Total is how many machines; Available how many of them are free.
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

// AddReservation gives the account a reservation; all of it is free. It returns its id.
func (s *Sim) AddReservation(r Reservation) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.types.byName[r.InstanceType] == nil || s.zoneID(r.Zone) == "" {
		return "", fmt.Errorf("awssim: reservation: there is no type %q or no zone %q", r.InstanceType, r.Zone)
	}
	r.ID = orDefault(r.ID, s.id("cr"))
	r.Match, r.Type, r.Owner = orDefault(r.Match, "targeted"), orDefault(r.Type, "default"), orDefault(r.Owner, s.opts.AccountID)
	r.Available = r.Total
	s.reservation[r.ID] = &r
	switch {
	case r.End.IsZero():
	case r.Type == capacityBlock: // its machines are taken back half an hour before
		s.at(r.End.Add(-30*time.Minute), func(now time.Time) {
			s.inReservation(&r, func(in *instance) { s.terminate(in, "Server.CapacityBlockExpired", now) })
		})
	default:
		s.at(r.End, func(time.Time) { s.unreserve(&r) })
	}
	return r.ID, nil
}

// CancelReservation ends a reservation. Its instances run on, on demand.
func (s *Sim) CancelReservation(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.reservation[id]; r != nil {
		r.cancelled = true
		s.unreserve(r)
	}
}

// unreserve has the instances of a reservation be in none.
func (s *Sim) unreserve(r *Reservation) {
	s.inReservation(r, func(in *instance) { in.reservation = nil })
}

func (s *Sim) inReservation(r *Reservation, do func(*instance)) {
	for _, id := range slices.Sorted(maps.Keys(s.instances)) {
		if in := s.instances[id]; in.reservation != nil && in.reservation.ID == r.ID {
			do(in)
		}
	}
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

func describeReservations(s *Sim, c *call) (any, error) {
	all, err := byID(c.form.texts("CapacityReservationId"), s.reservation, "InvalidCapacityReservationId.NotFound", "capacity reservation")
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
				{"availabilityZoneId", s.zoneID(r.Zone)},
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

// reservationFor returns the reservation that an order uses up; nil: none.
func (s *Sim) reservationFor(o *order, now time.Time) (*Reservation, *apiError) {
	spec := o.template.data.at("CapacityReservationSpecification")
	id := spec.text("CapacityReservationTarget", "CapacityReservationId")
	market := o.template.data.text("InstanceMarketOptions", "MarketType")
	switch {
	case id != "":
		r := s.reservation[id]
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
	for _, id := range slices.Sorted(maps.Keys(s.reservation)) {
		r := s.reservation[id]
		if r.Match == "open" && r.Type == "default" && r.state(now) == "active" && r.InstanceType == o.instanceType && r.Zone == o.zone && r.Available > 0 {
			return r, nil
		}
	}
	if spec.text("CapacityReservationPreference") == "capacity-reservations-only" {
		return nil, fail("ReservationCapacityExceeded", "There is no open capacity reservation for this request.")
	}
	return nil, nil
}

// spreadMax is how many instances a spread group may have in one zone.
const spreadMax = 7

// PlacementGroup says how near to each other instances are put.
type PlacementGroup struct {
	ID, Name string
	// Strategy is cluster, partition or spread.
	Strategy   string
	Partitions int
}

type placementGroup struct{ PlacementGroup }

// placed is where in a group an instance is.
type placed struct {
	groupID, groupName string
	partition          int
}

// AddPlacementGroup gives the account a placement group and returns its id.
func (s *Sim) AddPlacementGroup(g PlacementGroup) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.ID = orDefault(g.ID, s.id("pg"))
	s.placements = append(s.placements, placementGroup{g})
	return g.ID
}

func describePlacements(s *Sim, c *call) (any, error) {
	all := slices.Clone(s.placements)
	for _, by := range []struct {
		param string
		get   func(g placementGroup) string
	}{
		{"GroupId", func(g placementGroup) string { return g.ID }}, {"GroupName", func(g placementGroup) string { return g.Name }},
	} {
		for _, v := range c.form.texts(by.param) {
			all = slices.DeleteFunc(all, func(g placementGroup) bool { return by.get(g) != v })
			if len(all) == 0 {
				if by.param == "GroupId" {
					return nil, s.noGroup(v, "")
				}
				return nil, s.noGroup("", v)
			}
		}
	}
	return describeAll(c, "placementGroupSet", 1000, all, described[placementGroup]{
		key: func(g placementGroup) string { return g.ID }, tags: noTags[placementGroup],
		property: func(g placementGroup, filter string) ([]string, bool) {
			switch filter {
			case "state":
				return only("available")
			case "strategy":
				return only(g.Strategy)
			case "group-name":
				return only(g.Name)
			default:
				return nil, false
			}
		},
		write: func(g placementGroup) fields {
			out := fields{{"groupId", g.ID}, {"groupName", g.Name}, {"strategy", g.Strategy}, {"state", "available"}}
			if g.Partitions > 0 {
				out = append(out, field{"partitionCount", g.Partitions})
			}
			if g.Strategy == "spread" {
				out = append(out, field{"spreadLevel", "rack"})
			}
			return out
		},
	})
}

// placementFor finds the place of an order in its group, if it names one.
func (s *Sim) placementFor(o *order) (placed, *apiError) {
	spec := o.template.data.at("Placement")
	id, name := spec.text("GroupId"), spec.text("GroupName")
	if id == "" && name == "" {
		return placed{}, nil
	}
	i := slices.IndexFunc(s.placements, func(g placementGroup) bool { return g.ID == id || name != "" && g.Name == name })
	if i < 0 {
		return placed{}, s.noGroup(id, name)
	}
	g := s.placements[i]
	if !slices.Contains(o.machine.strategies(), g.Strategy) {
		return placed{}, fail("InvalidParameterCombination", "%s placement groups may not be used with instances of type '%s'.", g.Strategy, o.instanceType)
	}
	inZone, byPartition := 0, map[int]int{}
	for _, in := range s.instances {
		if in.placement.groupID == g.ID && in.state != stateTerminated && in.subnet.Zone == o.zone {
			inZone++
			byPartition[in.placement.partition]++
		}
	}
	p := placed{groupID: g.ID, groupName: g.Name}
	switch g.Strategy {
	case "spread":
		if inZone >= spreadMax {
			return placed{}, fail("InsufficientInstanceCapacity", "You have reached the limit of instances in this spread placement group in %s (%d).", o.zone, spreadMax)
		}
	case "partition":
		p.partition, _ = strconv.Atoi(spec.text("PartitionNumber"))
		if p.partition == 0 {
			p.partition = 1
			for n := 2; n <= g.Partitions; n++ {
				if byPartition[n] < byPartition[p.partition] {
					p.partition = n
				}
			}
		}
		if p.partition > g.Partitions {
			return placed{}, fail("InvalidParameterValue", "Placement group %s has %d partitions", g.Name, g.Partitions)
		}
	}
	return p, nil
}
