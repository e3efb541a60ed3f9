package aws

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

const (
	// quotaKept is for how long the offerings that a quota covers are avoided when it is used up:
	// that ends only when instances end or somebody raises the quota.
	quotaKept = 5 * time.Minute
	// roleKept is for how long spot is avoided when its service-linked role is missing.
	roleKept = 3 * time.Minute
	// refusalsShown bounds the different refusals in a message.
	refusalsShown = 5
)

var (
	// errTemplateGone says that a launch template was deleted by somebody else.
	errTemplateGone = errors.New("a launch template is gone")
	// errUnseen says that EC2 refused a request without looking at it.
	errUnseen = errors.New("refused by EC2 unseen")
	// errRepeated says that EC2 refused the repeat of a request of unknown outcome.
	errRepeated = errors.New("refused by EC2 when it was repeated")
)

// refusal is one refusal in EC2's answer: for an offering in a subnet or, if they are empty, for
// all.
type refusal struct {
	Code, Message, Type, Zone, Subnet string
}

// refusals returns the refusals in the answer to a request for a fleet.
func refusals(out *ec2.CreateFleetOutput) []refusal {
	var all []refusal
	for i := range out.Errors {
		e := &out.Errors[i]
		r := refusal{Code: aws.ToString(e.ErrorCode), Message: aws.ToString(e.ErrorMessage)}
		if at := e.LaunchTemplateAndOverrides; at != nil && at.Overrides != nil {
			r.Type, r.Zone, r.Subnet = string(at.Overrides.InstanceType), aws.ToString(at.Overrides.AvailabilityZone), aws.ToString(at.Overrides.SubnetId)
		}
		all = append(all, r)
	}
	return all
}

// shortCodes are the refusals that say that something is used up.
var shortCodes = []string{ //nolint:gochecknoglobals // a table
	"InsufficientInstanceCapacity", "MaxSpotInstanceCountExceeded", "VcpuLimitExceeded", "UnfulfillableCapacity", "Unsupported",
	"InsufficientFreeAddressesInSubnet", "MaxFleetCountExceeded", "ReservationCapacityExceeded", "InstanceLimitExceeded",
	codeNoSpotRole, "InsufficientCapacityOnHost", "InsufficientReservedInstanceCapacity", "SpotMaxPriceTooLow", "InvalidCapacityReservationState.Unavailable",
}

// failureOf returns the error for the members of a batch that got no instance.
func failureOf(o *fleetRequest, all []refusal) error {
	if slices.ContainsFunc(all, func(r refusal) bool { return isTemplateGone(r.Code) }) {
		return errTemplateGone
	}
	f := &cloud.Failure{Kind: cloud.NoCapacity, Message: describeRefusals(all)}
	if len(all) == 0 {
		f.Message, f.Short = "EC2 launched fewer instances than were asked for and gave no reason", o.places()
		return f
	}
	f.Short, f.Keep = shortages(o, all)
	f.Reason = reasonOf(all[0].Code, all[0].Message)
	if at := slices.IndexFunc(all, func(r refusal) bool { return !isShort(r) }); at >= 0 {
		f.Kind, f.Reason = cloud.Rejected, reasonOf(all[at].Code, all[at].Message)
	}
	if f.Reason == string(cloud.Rejected) && o.isForReservations() { // else claims would wait for it, though other offerings suffice
		f.Kind, f.Short = cloud.NoCapacity, o.places()
	}
	return f
}

// isShort reports whether a refusal says that something is used up.
func isShort(r refusal) bool {
	return slices.Contains(shortCodes, r.Code) || strings.Contains(r.Message, spreadFull)
}

// shortages returns the offerings of a request that have no capacity by its refusals, and for how
// long to avoid them. Other refusals and launched instances do not matter to it.
func shortages(o *fleetRequest, all []refusal) (places []catalog.Place, keep time.Duration) {
	offered := o.places()
	for _, r := range all {
		if !isShort(r) || o.CapacityType == label.Reserved && r.Code == codeReservedFull { // what is left is counted
			continue
		}
		short, its := shortOf(r, offered)
		if strings.Contains(r.Message, spreadFull) {
			for i := range short { // others can have instances there
				short[i].Reservation, short[i].Group = "", o.Group
			}
		}
		places, keep = append(places, short...), max(keep, its)
	}
	slices.SortFunc(places, func(a, b catalog.Place) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.CapacityType, b.CapacityType), cmp.Compare(a.Reservation, b.Reservation))
	})
	return slices.Compact(places), keep
}

// shortOf returns those of the requested offerings that a refusal is about, and for how long to
// avoid them; 0: the usual time.
func shortOf(r refusal, offered []catalog.Place) (short []catalog.Place, keep time.Duration) {
	covers := func(p catalog.Place) bool {
		return (r.Type == "" || p.Type == r.Type || strings.Contains(r.Message, spreadFull)) && (r.Zone == "" || p.Zone == r.Zone)
	}
	switch r.Code {
	case codeVCPUQuota: // one quota for the instances of a class, wherever they are
		keep = quotaKept
		covers = func(p catalog.Place) bool { return r.Type == "" || quotaClass(p.Type) == quotaClass(r.Type) }
	case codeSpotQuota:
		keep = quotaKept
		covers = func(p catalog.Place) bool {
			return p.CapacityType == label.Spot && (r.Type == "" || quotaClass(p.Type) == quotaClass(r.Type))
		}
	case "MaxFleetCountExceeded":
		covers = func(catalog.Place) bool { return true }
	case codeNoSpotRole:
		keep = roleKept
		covers = func(p catalog.Place) bool { return p.CapacityType == label.Spot }
	case codeNoAddresses: // it was the subnet of the zone that had most of them
		covers = func(p catalog.Place) bool { return r.Zone == "" || p.Zone == r.Zone }
	}
	for _, p := range offered {
		if covers(p) {
			short = append(short, p)
		}
	}
	return short, keep
}

var typeClass = regexp.MustCompile(`^[a-z]+`)

// quotaClass returns the vCPU quota that a type counts against
// (https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html, 2026-11).
func quotaClass(instanceType string) string {
	class := typeClass.FindString(instanceType)
	switch {
	case class == "g" || class == "gr" || class == "vt":
		return "g"
	case slices.Contains([]string{"dl", "f", "hpc", "inf", "mac", "p", "trn", "u", "x"}, class):
		return class
	default:
		return "standard"
	}
}

// describeRefusals returns the different refusals in one line.
func describeRefusals(all []refusal) string {
	var said []string
	for _, r := range all {
		text := strings.TrimSpace(fmt.Sprintf("%s %s: %s: %s", r.Type, r.Zone, r.Code, r.Message))
		if !slices.Contains(said, text) {
			said = append(said, text)
		}
	}
	if more := len(said) - refusalsShown; more > 0 {
		said = append(said[:refusalsShown], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(said, "; ")
}

// answerError returns what an error of CreateFleet means: a definite failure as an outcome, or an
// error if the outcome is not known. After an attempt of unknown outcome no refusal is definite:
// EC2 may refuse before it looks at the token, or because of the token.
func answerError(o *fleetRequest, err error, doubtful bool) (outcome, error) {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return outcome{}, fmt.Errorf("create fleet: %w", err)
	}
	code, message := api.ErrorCode(), api.ErrorMessage()
	switch {
	case isThrottling(code) || isUnauthenticated(code):
		return outcome{}, fmt.Errorf("create fleet: %w: %s: %s", errUnseen, code, message)
	case api.ErrorFault() == smithy.FaultServer || isOutage(code):
		return outcome{}, fmt.Errorf("create fleet: %w", err)
	case doubtful || code == "IdempotentParameterMismatch":
		return outcome{}, fmt.Errorf("create fleet: %w: %s: %s", errRepeated, code, message)
	default:
		return outcome{failure: failureOf(o, []refusal{{Code: code, Message: message}})}, nil
	}
}
