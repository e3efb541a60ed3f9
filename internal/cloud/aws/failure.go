package aws

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

const (
	// quotaKept is for how long what a quota covers is left alone: it is more than a
	// moment's shortage, and is over when machines end or somebody raises it.
	quotaKept = 5 * time.Minute
	// roleKept is for how long spot is left alone when its service-linked role is missing.
	roleKept = 3 * time.Minute
	// refusalsTold bounds the different refusals in a message.
	refusalsTold = 5
)

// errTemplateGone says that a launch template was deleted by somebody else.
var errTemplateGone = errors.New("a launch template is gone")

// refusal is one no of EC2, for a place in a subnet or, if they are empty, for all.
type refusal struct {
	Code, Message, Type, Zone, Subnet string
}

// refusals returns what a fleet was not given, and why.
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

const (
	codeNoSpotRole   = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
	codeNoAddresses  = "InsufficientFreeAddressesInSubnet"
	codeVCPUQuota    = "VcpuLimitExceeded"
	codeSpotQuota    = "MaxSpotInstanceCountExceeded"
	codeReservedFull = "ReservationCapacityExceeded"
	// spreadFull is what EC2 says, by whatever code, of a zone in which a placement group that
	// spreads machines has as many as it takes.
	spreadFull = "limit of instances in this spread placement group"
)

// failureOf says what refusals mean for those who got nothing.
func failureOf(o *order, all []refusal) error {
	if slices.ContainsFunc(all, func(r refusal) bool { return isTemplateGone(r.Code) }) {
		return errTemplateGone
	}
	f := &cloud.Failure{Kind: cloud.NoCapacity, Message: tellRefusals(all)}
	if len(all) == 0 {
		f.Message = "EC2 launched fewer instances than were asked for and gave no reason"
		return f
	}
	f.Short, f.Keep = shortages(o, all)
	f.Reason = reasonOf(all[0].Code, all[0].Message)
	if at := slices.IndexFunc(all, func(r refusal) bool { return !isShort(r) }); at >= 0 {
		f.Kind, f.Reason = cloud.Rejected, reasonOf(all[at].Code, all[at].Message)
	}
	if f.Reason == string(cloud.Rejected) && o.isForReservations() { // or claims would wait for it, though other offers would do
		f.Kind, f.Short = cloud.NoCapacity, o.places()
	}
	return f
}

// isForReservations reports whether an order is for a fleet of a kind that EC2 may not take at
// all: that it launches capacity blocks and interruptible reservations so is not documented.
func (o *order) isForReservations() bool {
	target := o.Input.TargetCapacitySpecification
	if target == nil {
		return false
	}
	kind := target.DefaultTargetCapacityType
	return kind == types.DefaultTargetCapacityTypeCapacityBlock || kind == types.DefaultTargetCapacityTypeReservedCapacity
}

// isShort tells whether a refusal says that something is used up.
func isShort(r refusal) bool {
	return slices.Contains(shortCodes, r.Code) || strings.Contains(r.Message, spreadFull)
}

// shortages returns the places of an order that its refusals say are used up, whatever else
// they say and whatever was launched, and for how long to leave them alone.
func shortages(o *order, all []refusal) (places []catalog.Place, keep time.Duration) {
	offered := o.places()
	for _, r := range all {
		if !isShort(r) {
			continue
		}
		short, its := shortOf(r, offered)
		places, keep = append(places, short...), max(keep, its)
	}
	slices.SortFunc(places, func(a, b catalog.Place) int {
		return strings.Compare(a.Type+"/"+a.Zone+"/"+a.CapacityType, b.Type+"/"+b.Zone+"/"+b.CapacityType)
	})
	return slices.Compact(places), keep
}

// shortOf returns the offered places that a refusal speaks for, and for how long to leave
// them alone; 0: the usual time.
func shortOf(r refusal, offered []catalog.Place) (short []catalog.Place, keep time.Duration) {
	covers := func(p catalog.Place) bool {
		return (r.Type == "" || p.Type == r.Type || strings.Contains(r.Message, spreadFull)) && (r.Zone == "" || p.Zone == r.Zone)
	}
	switch r.Code {
	case codeVCPUQuota: // one quota for the machines of a class, wherever they are
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

// tellRefusals returns the different refusals in one line.
func tellRefusals(all []refusal) string {
	var said []string
	for _, r := range all {
		text := strings.TrimSpace(fmt.Sprintf("%s %s: %s: %s", r.Type, r.Zone, r.Code, r.Message))
		if !slices.Contains(said, text) {
			said = append(said, text)
		}
	}
	if more := len(said) - refusalsTold; more > 0 {
		said = append(said[:refusalsTold], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(said, "; ")
}

// answerError says what an error of CreateFleet means: a verdict, or that the outcome is
// not known. After an attempt of unknown outcome no refusal is definite: it may come before
// EC2 looks at the token, or because of it.
func answerError(o *order, err error, doubtful bool) (verdict, error) {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return verdict{}, fmt.Errorf("create fleet: %w", err)
	}
	code, message := api.ErrorCode(), api.ErrorMessage()
	switch {
	case isThrottling(code) || isAtTheDoor(code):
		return verdict{}, fmt.Errorf("create fleet: %w: %s: %s", errUnseen, code, message)
	case api.ErrorFault() == smithy.FaultServer || isOutage(code):
		return verdict{}, fmt.Errorf("create fleet: %w", err)
	case doubtful || code == "IdempotentParameterMismatch":
		return verdict{}, fmt.Errorf("create fleet: %w: %s: %s", errRepeated, code, message)
	default:
		return verdict{failure: failureOf(o, []refusal{{Code: code, Message: message}})}, nil
	}
}

// isOutage tells whether a code is about the way to EC2 rather than the request.
func isOutage(code string) bool {
	return slices.Contains([]string{
		"InternalError", "InternalFailure", "ServiceUnavailable", "Unavailable", "RequestTimeout",
	}, code) || isAtTheDoor(code)
}

// isAtTheDoor tells whether a code says that we were not let in: the request itself was not
// looked at.
func isAtTheDoor(code string) bool {
	return slices.Contains([]string{"ExpiredToken", "ExpiredTokenException", "RequestExpired", "InvalidClientTokenId", "SignatureDoesNotMatch"}, code)
}

func isTemplateGone(code string) bool {
	return code == "InvalidLaunchTemplateName.NotFoundException" || code == "InvalidLaunchTemplateId.NotFound"
}

// isNotFound tells whether a code says that what was named does not exist.
func isNotFound(code string) bool {
	return isTemplateGone(code) || slices.Contains([]string{
		"InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed", "InvalidCapacityReservationId.NotFound",
		"InvalidPlacementGroup.Unknown", "InvalidPlacementGroupId.Malformed", "NoSuchEntity", "NoSuchEntityException", "ParameterNotFound", "AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist",
	}, code)
}

// reasonOf returns the reason, for the Launched condition, of an error of EC2.
func reasonOf(code, message string) string {
	text := code + ": " + message
	for _, known := range []struct{ mark, reason string }{
		{codeNoSpotRole, "SpotSLRCreationFailed"},
		{"Not authorized for images", "AMIAuthorizationFailure"},
		{"PendingVerification", "AccountPendingVerification"},
		{"UnauthorizedOperation", "Unauthorized"},
		{"AccessDenied", "Unauthorized"},
		{"AuthFailure", "Unauthorized"},
		{"belong to different networks", "SecurityGroupSubnetVPCMismatch"},
		{"iamInstanceProfile.name is invalid", "InstanceProfileNameInvalid"},
		{"Invalid IAM Instance Profile", "InstanceProfileNameInvalid"},
		{"InvalidLaunchTemplate", "LaunchTemplateNotFound"},
		{"User data is limited to", "UserDataSizeLimitExceeded"},
		{"InvalidAMIID.Malformed", "InvalidAMIID"},
		{"InvalidAMIID", "AMINotFound"},
		{"RequestLimitExceeded", "RequestLimitExceeded"},
		{"InternalError", "InternalError"},
		{"not eligible for Free Tier", "FreeTierIneligible"},
		{"MaxFleetCountExceeded", "FleetQuotaExceeded"},
		{codeSpotQuota, "SpotQuotaExceeded"},
		{codeVCPUQuota, "VCPULimitExceeded"},
		{codeNoAddresses, "InsufficientFreeAddressesInSubnet"},
		{"InsufficientInstanceCapacity", string(cloud.NoCapacity)},
		{"UnfulfillableCapacity", string(cloud.NoCapacity)},
		{codeReservedFull, string(cloud.NoCapacity)},
		{"SpotMaxPriceTooLow", string(cloud.NoCapacity)},
		{"InvalidCapacityReservationState.Unavailable", string(cloud.NoCapacity)},
	} {
		if strings.Contains(text, known.mark) {
			return known.reason
		}
	}
	return string(cloud.Rejected)
}

// places returns everywhere that an order may be carried out.
func (o *order) places() []catalog.Place {
	var all []catalog.Place
	for _, c := range o.Input.LaunchTemplateConfigs {
		for _, over := range c.Overrides {
			all = append(all, catalog.Place{Type: string(over.InstanceType), Zone: aws.ToString(over.AvailabilityZone), CapacityType: o.CapacityType})
		}
	}
	return all
}

// seal makes an order ready to be sent, for the members that it has.
func (o *order) seal(batch string) {
	o.Input.ClientToken = aws.String(o.ClientToken)
	o.Input.TargetCapacitySpecification.TotalTargetCapacity = aws.Int32(int32(len(o.Members))) //nolint:gosec // at most batchMost
	for i := range o.Input.TagSpecifications {
		s := &o.Input.TagSpecifications[i]
		if s.ResourceType != types.ResourceTypeInstance {
			continue
		}
		s.Tags = append(s.Tags, types.Tag{Key: aws.String(launchTag), Value: aws.String(batch)})
		if len(o.Members) == 1 { // of several each gets its own when it runs
			s.Tags = append(s.Tags, nodeClaimTag(o.Members[0].Claim))
		}
	}
}
