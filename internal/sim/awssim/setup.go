package awssim

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/sim/awssim/boot"
)

// AddImage gives the account an image of its own. The family says how it reads its user
// data: al2, al2023, bottlerocket, windows2022, or empty for none.
func (s *Sim) AddImage(im Image, family string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	im.family = family
	if im.Owner == "" {
		im.Owner = s.base.opts.AccountID
	}
	s.images.byID[im.ID] = &im
}

// AddProfile gives the account an instance profile with a role, as a person would.
func (s *Sim) AddProfile(name, role string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.base.clock.Now()
	s.iam.roles[role] = true
	s.iam.byName[name] = &profile{name: name, path: "/", role: role, id: s.base.id("AIPA"), tags: map[string]string{}, created: now, visible: now}
}

// Profiles returns the names of the instance profiles, in order.
func (s *Sim) Profiles() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.iam.byName))
}

// SetParameter gives the account an SSM parameter.
func (s *Sim) SetParameter(name, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ssm.values[name] = value
}

// Parameter returns an SSM parameter; empty: there is none.
func (s *Sim) Parameter(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ssm.values[name]
}

// Shift begins zonal shifts of the cluster, and ends all others.
func (s *Sim) Shift(shifts ...ZonalShift) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eks.active = shifts
}

// Zones returns the account's zones, names and ids.
func (s *Sim) Zones() []Zone { return slices.Clone(s.network.zones) }

// SetQuota sets how many vCPUs a class may have: "on-demand/standard", "spot/g".
func (s *Sim) SetQuota(name string, vcpus int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pools.quotas[name] = vcpus
}

// SetCapacity sets how many instances a pool has left. Terminated ones come back to it.
func (s *Sim) SetCapacity(capacityType, instanceType, zone string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pools.capacity[poolKey{capacityType, instanceType, zone}] = n
}

// SpotPrice returns what a spot instance costs in a zone now, in dollars an hour.
func (s *Sim) SpotPrice(instanceType, zone string) (float64, bool) {
	t := s.base.types.byName[instanceType]
	if t == nil {
		return 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	price, _, ok := s.prices.spot.price(s.base.opts.Seed, t, s.network.zoneID(zone), s.base.clock.Now())
	return price, ok
}

// AddReservation gives the account a reservation; all of it is free. It returns its id.
func (s *Sim) AddReservation(r Reservation) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.base.types.byName[r.InstanceType] == nil || s.network.zoneID(r.Zone) == "" {
		return "", fmt.Errorf("awssim: reservation: there is no type %q or no zone %q", r.InstanceType, r.Zone)
	}
	r.ID = orDefault(r.ID, s.base.id("cr"))
	r.Match, r.Type, r.Owner = orDefault(r.Match, "targeted"), orDefault(r.Type, "default"), orDefault(r.Owner, s.base.opts.AccountID)
	r.Available = r.Total
	s.reservations.byID[r.ID] = &r
	switch {
	case r.End.IsZero():
	case r.Type == capacityBlock: // its instances are taken back half an hour before
		s.base.at(r.End.Add(-30*time.Minute), func(now time.Time) {
			s.reservations.inReservation(&r, func(in *instance) { s.instances.terminate(in, "Server.CapacityBlockExpired", now) })
		})
	default:
		s.base.at(r.End, func(time.Time) { s.reservations.unreserve(&r) })
	}
	return r.ID, nil
}

// CancelReservation ends a reservation. Its instances run on, on demand.
func (s *Sim) CancelReservation(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.reservations.byID[id]; r != nil {
		r.cancelled = true
		s.reservations.unreserve(r)
	}
}

// AddPlacementGroup gives the account a placement group and returns its id.
func (s *Sim) AddPlacementGroup(g PlacementGroup) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.ID = orDefault(g.ID, s.base.id("pg"))
	s.placements.groups = append(s.placements.groups, placementGroup{g})
	return g.ID
}

// Templates returns the names of the launch templates that exist, in order.
func (s *Sim) Templates() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, t := range s.templates.byID {
		names = append(names, t.name)
	}
	slices.Sort(names)
	return names
}

// Send puts a message on the interruption queue, whatever it says.
func (s *Sim) Send(body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sqs.send(s.sqs.byName[s.base.opts.Queue], body, s.base.clock.Now())
}

// QueueLength is how many messages the interruption queue has, hidden ones included.
func (s *Sim) QueueLength() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sqs.byName[s.base.opts.Queue].messages)
}

// Protect gives an instance termination protection, or takes it away.
func (s *Sim) Protect(id string, protected bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in := s.instances.byID[id]; in != nil {
		in.protected = protected
	}
}

// Boot returns what an instance of the type would register, booted by itself from an image
// of the family (package boot's names), with the image's own disks and no more than one
// interface. It is for tables over all types.
func (s *Sim) Boot(instanceType, family string, userData []byte) (*corev1.Node, error) {
	m := s.base.types.byName[instanceType]
	if m == nil {
		return nil, fmt.Errorf("awssim: there is no instance type %q", instanceType)
	}
	in := &instance{
		id: "i-00000000000000000", typ: m, image: &Image{family: family}, template: &template{data: &form{}},
		subnet: &Subnet{Zone: s.network.zones[0].Name, zoneID: s.network.zones[0].ID}, addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, 4})},
	}
	return boot.Node(family, userData, s.instances.booted(in))
}

// InstanceTypes returns the names of all types, in order.
func (s *Sim) InstanceTypes() []string { return slices.Clone(s.base.types.names) }
