package aws

import (
	"errors"
	"slices"
	"strings"

	"github.com/aws/smithy-go"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

const (
	codeNoSpotRole   = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
	codeNoAddresses  = "InsufficientFreeAddressesInSubnet"
	codeVCPUQuota    = "VcpuLimitExceeded"
	codeSpotQuota    = "MaxSpotInstanceCountExceeded"
	codeReservedFull = "ReservationCapacityExceeded"
	// spreadFull is in the message of EC2's refusals, whatever their code, if a spread placement
	// group has no room in a zone.
	spreadFull = "limit of instances in this spread placement group"
)

// errorCode returns AWS' code of an error; "Unknown" of one that has none.
func errorCode(err error) string {
	var api smithy.APIError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &api):
		return api.ErrorCode()
	default:
		return "Unknown"
	}
}

func isThrottling(code string) bool {
	switch code {
	case "RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "TooManyRequestsException", "RequestThrottled", "RequestThrottledException":
		return true
	}
	return false
}

// isOutage reports whether a code says nothing about the request itself: the service failed, was
// not available, or refused the credentials.
func isOutage(code string) bool {
	return slices.Contains([]string{
		"InternalError", "InternalFailure", "ServiceUnavailable", "Unavailable", "RequestTimeout",
	}, code) || isUnauthenticated(code)
}

// isUnauthenticated reports whether a code says that the credentials were refused: the request
// itself was not looked at.
func isUnauthenticated(code string) bool {
	return slices.Contains([]string{"ExpiredToken", "ExpiredTokenException", "RequestExpired", "InvalidClientTokenId", "SignatureDoesNotMatch"}, code)
}

func isTemplateGone(code string) bool {
	return code == "InvalidLaunchTemplateName.NotFoundException" || code == "InvalidLaunchTemplateId.NotFound"
}

// isNotFound reports whether a code says that what was named does not exist.
func isNotFound(code string) bool {
	return isTemplateGone(code) || slices.Contains([]string{
		"InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed", "InvalidCapacityReservationId.NotFound",
		"InvalidPlacementGroup.Unknown", "InvalidPlacementGroupId.Malformed", "NoSuchEntity", "NoSuchEntityException", "ParameterNotFound", "AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist",
	}, code)
}

// isInconclusive reports whether an error says nothing about what was asked: AWS was not
// reached, was too busy, failed by itself, or did not let us in.
func isInconclusive(err error) bool {
	code := errorCode(err)
	var api smithy.APIError
	return code == "Unknown" || isThrottling(code) || isOutage(code) || errors.As(err, &api) && api.ErrorFault() == smithy.FaultServer
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
