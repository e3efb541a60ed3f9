package awssim

import (
	"maps"
	"slices"
	"time"
)

// Instance is what the account knows of an instance, for tests and people.
type Instance struct {
	ID           string    `json:"id"`
	Type         string    `json:"type"`
	Zone         string    `json:"zone"`
	CapacityType string    `json:"capacityType"`
	State        string    `json:"state"`
	ImageID      string    `json:"imageID"`
	SubnetID     string    `json:"subnetID"`
	Template     string    `json:"template"`
	Reservation  string    `json:"reservation,omitempty"`
	Launched     time.Time `json:"launched"`
	// Interrupted is when it was given its notice; zero: it was not.
	Interrupted time.Time         `json:"interrupted,omitzero"`
	Tags        map[string]string `json:"tags"`
	// Node is the name of its Node once it has joined; BootError why it never will.
	Node      string `json:"node,omitempty"`
	BootError string `json:"bootError,omitempty"`
	// Reboots is how often it was restarted.
	Reboots  int    `json:"reboots,omitempty"`
	UserData string `json:"-"`
	// Enclaves is what its launch template says of Nitro enclaves: true, false or, empty, nothing.
	Enclaves string `json:"enclaves,omitempty"`
	// PriceHourly is what it costs, in dollars: its price at the launch.
	PriceHourly float64 `json:"priceHourly"`
}

// Live reports whether it is pending or running.
func (in Instance) Live() bool { return in.State == statePending || in.State == stateRunning }

// Spent is the bill so far, in dollars: all instances there have been, by the second.
func (s *Sim) Spent() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.base.catchUp()
	sum := s.instances.spent
	for _, id := range slices.Sorted(maps.Keys(s.instances.byID)) {
		if in := s.instances.byID[id]; in.state != stateTerminated {
			sum += in.bill(s.base.clock.Now())
		}
	}
	return sum
}

// Instances returns all instances, terminated ones of the last hour included, by id.
func (s *Sim) Instances() []Instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.base.catchUp()
	var out []Instance
	for _, id := range slices.Sorted(maps.Keys(s.instances.byID)) {
		in := s.instances.byID[id]
		v := Instance{
			ID: in.id, Type: in.typ.name, Zone: in.subnet.Zone, CapacityType: in.capacityType, State: in.state, ImageID: in.image.ID,
			SubnetID: in.subnet.ID, Template: in.template.name, Launched: in.launched, Interrupted: in.interrupted, Tags: maps.Clone(in.tags), Node: in.node,
			BootError: in.bootError, UserData: string(in.template.userData), PriceHourly: in.priceHourly, Enclaves: in.enclaves(), Reboots: in.boots - 1,
		}
		if in.reservation != nil {
			v.Reservation = in.reservation.ID
		}
		out = append(out, v)
	}
	return out
}
