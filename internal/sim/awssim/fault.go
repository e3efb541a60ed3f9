package awssim

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Conditions last until they are cleared or their time is over.
const (
	// FaultDown: connections end before a request is read.
	FaultDown = "down"
	// FaultCut: connections end after the request was carried out.
	FaultCut = "cut"
	// FaultError: answers are 500 InternalError.
	FaultError = "error"
	// FaultThrottle: answers are RequestLimitExceeded, or what the service says for it.
	FaultThrottle = "throttle"
	// FaultExpired: the credentials have expired.
	FaultExpired = "credentials-expired"
	// FaultDenied: no policy allows the operation.
	FaultDenied = "denied"
	// FaultRefused: answers are 400 with Target as the code.
	FaultRefused = "refused"
	// FaultInconsistent: new things stay unseen for up to Delay.
	FaultInconsistent = "inconsistent"
	// FaultShort: the pools have no capacity.
	FaultShort = "short"
	// FaultZone: the zone has no capacity, and its instances are lost.
	FaultZone = "zone-gone"
	// FaultQuota: the quotas named by Target ("on-demand/standard") are Count.
	FaultQuota = "quota"
	// FaultAddresses: the subnets named by Target have no addresses.
	FaultAddresses = "no-addresses"
)

// Actions happen once.
const (
	// FaultDeleteTemplates deletes launch templates whose names match Target.
	FaultDeleteTemplates = "delete-launch-templates"
	// FaultTerminate terminates Count instances that match.
	FaultTerminate = "terminate"
	// FaultDeprecate deprecates images whose ids or names match Target, and publishes
	// newer ones behind the same parameters.
	FaultDeprecate = "deprecate-image"
	// FaultInterrupt gives Count spot instances their two minutes' notice.
	FaultInterrupt = "interrupt"
	// FaultRebalance recommends to leave Count spot instances.
	FaultRebalance = "rebalance"
	// FaultImpair makes the status checks of Count instances fail.
	FaultImpair = "impair"
	// FaultMaintenance schedules the retirement of Count instances, Delay from now.
	FaultMaintenance = "maintenance"
	// FaultReclaim interrupts Count instances of interruptible reservations.
	FaultReclaim = "reclaim-reservation"
)

// Fault is something that goes wrong. Patterns may hold * and ?; empty ones match all.
type Fault struct {
	Kind string `json:"kind"`
	// At is when it begins, counted from when the fault or its scenario is injected.
	At metav1.Duration `json:"at,omitzero"`
	// For is how long a condition lasts; zero: until it is cleared.
	For metav1.Duration `json:"for,omitzero"`
	// Operation is a pattern ("ec2:CreateFleet").
	Operation string `json:"operation,omitempty"`
	// Rate is the share of calls that are struck; zero: all.
	Rate float64 `json:"rate,omitempty"`
	// Times is how many calls are struck; zero: no bound.
	Times int `json:"times,omitempty"`

	CapacityType string `json:"capacityType,omitempty"`
	InstanceType string `json:"instanceType,omitempty"`
	Zone         string `json:"zone,omitempty"`
	// Target is a pattern for ids or names.
	Target string `json:"target,omitempty"`
	// Count is how many are struck; zero: all that match.
	Count int             `json:"count,omitempty"`
	Delay metav1.Duration `json:"delay,omitzero"`

	until  time.Time
	struck int
}

// Scenario is a file of faults.
type Scenario struct {
	Faults []Fault `json:"faults"`
}

// ReadScenario reads a scenario, YAML or JSON. Unknown fields and kinds are errors.
func ReadScenario(b []byte) (Scenario, error) {
	var sc Scenario
	if err := yaml.UnmarshalStrict(b, &sc); err != nil {
		return sc, fmt.Errorf("awssim scenario: %w", err)
	}
	for i, f := range sc.Faults {
		if err := f.check(); err != nil {
			return sc, fmt.Errorf("awssim scenario: faults[%d]: %w", i, err)
		}
	}
	return sc, nil
}

func (f *Fault) check() error {
	if !slices.Contains(conditions(), f.Kind) && actions()[f.Kind] == nil {
		known := slices.Sorted(maps.Keys(actions()))
		return fmt.Errorf("kind: %q is none of %v", f.Kind, append(conditions(), known...))
	}
	if f.Rate < 0 || f.Rate > 1 {
		return fmt.Errorf("rate: %v is not between 0 and 1", f.Rate)
	}
	return nil
}

func conditions() []string {
	return []string{
		FaultDown, FaultCut, FaultError, FaultThrottle, FaultExpired, FaultDenied, FaultRefused, FaultInconsistent,
		FaultShort, FaultZone, FaultQuota, FaultAddresses,
	}
}

// actions lists what happens once, by kind.
func actions() map[string]func(s *Sim, f *Fault, now time.Time) {
	return map[string]func(s *Sim, f *Fault, now time.Time){
		FaultDeleteTemplates: (*Sim).deleteTemplates,
		FaultTerminate:       each((*Sim).lose),
		FaultDeprecate:       (*Sim).deprecate,
		FaultInterrupt:       each((*Sim).interrupt),
		FaultRebalance:       each((*Sim).rebalance),
		FaultImpair:          each((*Sim).impair),
		FaultMaintenance:     each((*Sim).maintain),
		FaultReclaim:         each((*Sim).reclaim),
	}
}

// each does something to the instances that a fault means, in the order of their ids.
func each(do func(s *Sim, f *Fault, in *instance, now time.Time)) func(*Sim, *Fault, time.Time) {
	return func(s *Sim, f *Fault, now time.Time) {
		n := 0
		for _, id := range slices.Sorted(maps.Keys(s.instances)) {
			in := s.instances[id]
			if (f.Count > 0 && n >= f.Count) || !f.means(in) {
				continue
			}
			n++
			do(s, f, in, now)
		}
	}
}

// means tells whether an instance is one that the fault is about.
func (f *Fault) means(in *instance) bool {
	if !in.live() || !matches(f.InstanceType, in.machine.name) || !matches(f.Zone, in.subnet.Zone) || !matches(f.Target, in.id) {
		return false
	}
	switch f.Kind {
	case FaultInterrupt, FaultRebalance:
		return in.capacityType == capacitySpot && in.interrupted.IsZero()
	case FaultReclaim:
		return in.reservation != nil && in.reservation.Interruptible && in.interrupted.IsZero()
	default:
		return matches(f.CapacityType, in.capacityType)
	}
}

func matches(pattern, text string) bool { return pattern == "" || glob(pattern, text) }

// Inject makes a fault happen, now or at its time.
func (s *Sim) Inject(faults ...Fault) error {
	for i := range faults {
		if err := faults[i].check(); err != nil {
			return fmt.Errorf("awssim: faults[%d]: %w", i, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catchUp()
	now := s.clock.Now()
	for _, f := range faults {
		begin := func(now time.Time) {
			if do := actions()[f.Kind]; do != nil {
				do(s, &f, now)
				return
			}
			if f.For.Duration > 0 {
				f.until = now.Add(f.For.Duration)
			}
			s.faults = append(s.faults, &f)
			if f.Kind == FaultZone {
				each((*Sim).lose)(s, &f, now)
			}
		}
		if f.At.Duration > 0 {
			s.at(now.Add(f.At.Duration), begin)
			continue
		}
		begin(now)
	}
	return nil
}

// Clear ends all conditions; what is planned comes nevertheless.
func (s *Sim) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// faultsOf returns the conditions of a kind, and forgets those that are over.
func (s *Sim) faultsOf(kind string, now time.Time) []*Fault {
	s.faults = slices.DeleteFunc(s.faults, func(f *Fault) bool {
		return !f.until.IsZero() && !now.Before(f.until) || f.Times > 0 && f.struck >= f.Times
	})
	var out []*Fault
	for _, f := range s.faults {
		if f.Kind == kind {
			out = append(out, f)
		}
	}
	return out
}

// strikes tells whether a condition of the kind hits this call.
func (s *Sim) strikes(kind, operation string, now time.Time) bool {
	return s.striking(kind, operation, now) != nil
}

// striking returns the condition of the kind that hits this call; nil: there is none.
func (s *Sim) striking(kind, operation string, now time.Time) *Fault {
	for _, f := range s.faultsOf(kind, now) {
		if matches(f.Operation, operation) && (f.Rate == 0 || s.rng.Float64() < f.Rate) {
			f.struck++
			return f
		}
	}
	return nil
}

// isCut tells whether the connection ends without an answer: the request was not read
// (FaultDown), or it was carried out (FaultCut).
func (s *Sim) isCut(c *call, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return err == nil && s.breaks(FaultCut, c)
}

// isDown tells whether the endpoint is away for this call.
func (s *Sim) isDown(c *call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.breaks(FaultDown, c)
}

// breaks tells whether a condition ends this call's connection, and counts that.
func (s *Sim) breaks(kind string, c *call) bool {
	name := c.service + ":" + c.operation
	if !s.strikes(kind, name, s.clock.Now()) {
		return false
	}
	s.refused[name+" "+kind]++
	return true
}

// serveControl is the endpoint that people and scripts set faults by:
// POST /_awssim/faults with a scenario, DELETE /_awssim/faults, and GET /_awssim/calls,
// /_awssim/instances and /_awssim/account to look.
func (s *Sim) serveControl(w http.ResponseWriter, r *http.Request) {
	switch r.Method + " " + r.URL.Path {
	case "POST /_awssim/faults":
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyMax))
		if err == nil {
			var sc Scenario
			if sc, err = ReadScenario(body); err == nil {
				err = s.Inject(sc.Faults...)
			}
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	case "DELETE /_awssim/faults":
		s.Clear()
		w.WriteHeader(http.StatusNoContent)
	case "GET /_awssim/calls":
		writeJSON(w, map[string]any{"calls": s.Calls(), "refused": s.Refused(), "unknown": s.Unknown()})
	case "GET /_awssim/instances":
		writeJSON(w, s.Instances())
	case "GET /_awssim/account":
		writeJSON(w, map[string]any{
			"launchTemplates": s.Templates(), "instanceProfiles": s.Profiles(), "queueLength": s.QueueLength(), "spent": s.Spent(),
		})
	default:
		http.Error(w, "awssim has POST and DELETE /_awssim/faults, and GET /_awssim/calls, instances and account", http.StatusNotFound)
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	// Who is gone does not read the answer.
	_ = json.NewEncoder(w).Encode(v)
}
