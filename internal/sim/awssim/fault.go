package awssim

import (
	"fmt"
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
	// FaultShort: the pools have no capacity. Reservations have theirs all the same, unless the
	// capacity type is reserved.
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
	if !slices.Contains(conditions(), f.Kind) && !slices.Contains(actionKinds(), f.Kind) {
		return fmt.Errorf("kind: %q is none of %v", f.Kind, append(conditions(), actionKinds()...))
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

// actionKinds are the kinds that happen once, in order.
func actionKinds() []string {
	return slices.Sorted(slices.Values([]string{
		FaultDeleteTemplates, FaultTerminate, FaultDeprecate, FaultInterrupt, FaultRebalance, FaultImpair, FaultMaintenance, FaultReclaim,
	}))
}

func matches(pattern, text string) bool { return pattern == "" || glob(pattern, text) }
