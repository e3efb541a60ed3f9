package wire

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	providerv1 "github.com/dovetail-sh/dovetail/api/provider/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// keepMax bounds for how long a provider can have offerings avoided.
const keepMax = time.Hour

// reasonForm is what the reason of a condition looks like.
var reasonForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_,:]{0,127}$`)

// IsReason reports whether a provider's word can be the reason of a condition.
func IsReason(s string) bool { return reasonForm.MatchString(s) }

// Item returns the message for a launch request, without class and offerings.
func Item(r *cloud.LaunchRequest) *providerv1.LaunchItem {
	item := &providerv1.LaunchItem{
		Token: r.Token, Claim: r.Claim, Requirements: Requirements(r.Requirements), Requests: r.Requests,
		Labels: r.Labels, Annotations: r.Annotations, Repriced: r.Repriced,
	}
	for _, t := range r.Taints {
		item.Taints = append(item.Taints, &providerv1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
	}
	return item
}

// ParseItem reads a launch request, without class and choices.
func ParseItem(item *providerv1.LaunchItem) (cloud.LaunchRequest, error) {
	r := cloud.LaunchRequest{Token: item.GetToken(), Claim: item.GetClaim(), Labels: item.GetLabels(), Annotations: item.GetAnnotations(), Repriced: item.GetRepriced()}
	if err := checkID("token", r.Token); err != nil {
		return r, err
	}
	if err := checkID("claim", r.Claim); err != nil {
		return r, err
	}
	var err error
	if r.Requirements, err = ParseRequirements(item.GetRequirements()); err != nil {
		return r, err
	}
	if r.Requests, err = amounts("requests", item.GetRequests()); err != nil {
		return r, err
	}
	for _, t := range item.GetTaints() {
		r.Taints = append(r.Taints, cluster.Taint{Key: t.GetKey(), Value: t.GetValue(), Effect: t.GetEffect()})
	}
	return r, nil
}

// Instance returns the message for an instance of a cluster.
func Instance(i *cloud.Instance, clusterUID string) *providerv1.Instance {
	out := &providerv1.Instance{
		Id: i.ID, Token: i.Token, Claim: i.Claim, ImageId: i.ImageID, Labels: i.Labels, Annotations: i.Annotations,
		Capacity: i.Capacity, Allocatable: i.Allocatable, Terminating: i.Terminating, ClusterUid: clusterUID,
	}
	if i.Provisional {
		out.Id, out.ProvisionalId = "", i.ID
	}
	if i.Failed != nil {
		out.Failed = Failure(i.Failed)
	}
	if !i.Created.IsZero() {
		out.CreatedUnixMs = i.Created.UnixMilli()
	}
	return out
}

// ParseInstance reads an instance. What Instance.failed says is no failure unless it is a definite one.
func ParseInstance(in *providerv1.Instance) (cloud.Instance, error) {
	i := cloud.Instance{
		ID: in.GetId(), Token: in.GetToken(), Claim: in.GetClaim(), ImageID: Text(in.GetImageId()),
		Labels: in.GetLabels(), Annotations: in.GetAnnotations(), Terminating: in.GetTerminating(),
	}
	if i.ID == "" {
		i.ID, i.Provisional = in.GetProvisionalId(), in.GetProvisionalId() != ""
	}
	if err := checkID("id of an instance", i.ID); err != nil {
		return i, err
	}
	if err := checkIDOrNone("provisional_id", in.GetProvisionalId()); err != nil {
		return i, fmt.Errorf("instance %s: %w", i.ID, err)
	}
	if !i.Provisional && i.ID == in.GetProvisionalId() {
		return i, fmt.Errorf("instance %s: its id is its provisional_id, too", i.ID)
	}
	if in.GetFailed() != nil {
		_ = errors.As(ParseFailure(in.GetFailed()), &i.Failed)
	}
	for _, check := range []error{
		checkIDOrNone("token", i.Token), checkIDOrNone("claim", i.Claim), checkLabels(i.Labels), checkAnnotations(i.Annotations),
	} {
		if check != nil {
			return i, fmt.Errorf("instance %s: %w", i.ID, check)
		}
	}
	var err error
	if i.Capacity, err = amounts("capacity", in.GetCapacity()); err != nil {
		return i, fmt.Errorf("instance %s: %w", i.ID, err)
	}
	if i.Allocatable, err = amounts("allocatable", in.GetAllocatable()); err != nil {
		return i, fmt.Errorf("instance %s: %w", i.ID, err)
	}
	if ms := in.GetCreatedUnixMs(); ms > 0 {
		i.Created = time.UnixMilli(ms)
	}
	return i, nil
}

// failureKinds are the messages' kinds of what a provider of ours refuses with.
func failureKinds(kind cloud.FailureKind) providerv1.FailureKind {
	switch kind {
	case cloud.NoCapacity:
		return providerv1.FailureKind_FAILURE_KIND_NO_CAPACITY
	case cloud.ClassNotReady:
		return providerv1.FailureKind_FAILURE_KIND_CLASS_NOT_READY
	case cloud.Rejected:
		return providerv1.FailureKind_FAILURE_KIND_INVALID
	default:
		return providerv1.FailureKind_FAILURE_KIND_UNKNOWN_OUTCOME
	}
}

// Failure returns the message for a definite refusal.
func Failure(f *cloud.Failure) *providerv1.Failure {
	return &providerv1.Failure{
		Kind: failureKinds(f.Kind), Reason: f.Reason, Message: f.Message, Places: Places(f.Short), KeepMs: f.Keep.Milliseconds(),
	}
}

// ParseFailure reads a failure. What is no definite refusal is an error that is no *cloud.Failure:
// it is not known whether an instance was launched. So is a failure of a kind that is not known.
func ParseFailure(in *providerv1.Failure) error {
	f := &cloud.Failure{Message: message(in), Keep: Keep(in.GetKeepMs())}
	if IsReason(in.GetReason()) {
		f.Reason = in.GetReason()
	}
	var err error
	if f.Short, err = ParsePlaces(in.GetPlaces()); err != nil {
		return fmt.Errorf("failure: %w", err)
	}
	switch in.GetKind() {
	case providerv1.FailureKind_FAILURE_KIND_NO_CAPACITY, providerv1.FailureKind_FAILURE_KIND_NOT_FOUND:
		f.Kind = cloud.NoCapacity
	case providerv1.FailureKind_FAILURE_KIND_QUOTA:
		f.Kind, f.Message = cloud.NoCapacity, "a quota is used up: "+f.Message
	case providerv1.FailureKind_FAILURE_KIND_ADDRESSES:
		f.Kind, f.Message = cloud.NoCapacity, "no addresses are left: "+f.Message
	case providerv1.FailureKind_FAILURE_KIND_CLASS_NOT_READY:
		f.Kind = cloud.ClassNotReady
	case providerv1.FailureKind_FAILURE_KIND_INVALID, providerv1.FailureKind_FAILURE_KIND_DENIED:
		f.Kind = cloud.Rejected
	case providerv1.FailureKind_FAILURE_KIND_THROTTLED:
		return fmt.Errorf("throttled: %s", f.Message)
	case providerv1.FailureKind_FAILURE_KIND_UNKNOWN_OUTCOME:
		return fmt.Errorf("outcome unknown: %s", f.Message)
	default:
		return fmt.Errorf("outcome unknown, by a failure of unknown kind %d: %s", in.GetKind(), f.Message)
	}
	return f
}

// message returns what a failure says to people; never empty.
func message(in *providerv1.Failure) string {
	text := in.GetMessage()
	if text == "" {
		text = "the provider gave no reason"
	}
	if in.GetCloudCode() != "" {
		text = in.GetCloudCode() + ": " + text
	}
	if in.GetCloudRequestId() != "" {
		text += " (request " + in.GetCloudRequestId() + ")"
	}
	return Text(text)
}

// Keep returns for how long offerings are avoided; 0: the usual time.
func Keep(ms int64) time.Duration { return Millis(ms, keepMax) }

// Millis returns a duration of 0 to most.
func Millis(ms int64, most time.Duration) time.Duration {
	return time.Duration(max(0, min(ms, most.Milliseconds()))) * time.Millisecond
}

// noticeKinds are the kinds of the seam, by those of the protocol.
var noticeKinds = map[providerv1.NoticeKind]cloud.NoticeKind{ //nolint:gochecknoglobals // a table, never changed
	providerv1.NoticeKind_NOTICE_KIND_RECLAIMED:             cloud.Reclaimed,
	providerv1.NoticeKind_NOTICE_KIND_RESERVATION_RECLAIMED: cloud.ReservationReclaimed,
	providerv1.NoticeKind_NOTICE_KIND_RESERVATION_ENDING:    cloud.ReservationEnding,
	providerv1.NoticeKind_NOTICE_KIND_REBALANCE:             cloud.RebalanceRecommended,
	providerv1.NoticeKind_NOTICE_KIND_MAINTENANCE:           cloud.MaintenanceScheduled,
	providerv1.NoticeKind_NOTICE_KIND_STOPPED:               cloud.Stopped,
	providerv1.NoticeKind_NOTICE_KIND_ENDED:                 cloud.Ended,
	providerv1.NoticeKind_NOTICE_KIND_INSTANCE_BROKEN:       cloud.InstanceBroken,
	providerv1.NoticeKind_NOTICE_KIND_SYSTEM_BROKEN:         cloud.SystemBroken,
	providerv1.NoticeKind_NOTICE_KIND_ZONE_SHIFTED:          cloud.ZoneShifted,
	providerv1.NoticeKind_NOTICE_KIND_ZONE_RESTORED:         cloud.ZoneRestored,
	providerv1.NoticeKind_NOTICE_KIND_LAUNCH_FAILED:         cloud.LaunchFailed,
	providerv1.NoticeKind_NOTICE_KIND_LAUNCH_CHANGED:        cloud.LaunchChanged,
}

// noticeKind returns the protocol's kind; unspecified if it has none.
func noticeKind(k cloud.NoticeKind) (found providerv1.NoticeKind) {
	for kind, is := range noticeKinds {
		if is == k {
			found = kind
		}
	}
	return found
}

// Notice returns the message for a notice; unspecified if the protocol has no such kind.
func Notice(n cloud.Notice) *providerv1.Notice {
	out := &providerv1.Notice{InstanceId: n.InstanceID, Zone: n.Zone, Kind: noticeKind(n.Kind)}
	if !n.Ends.IsZero() {
		out.EndsUnixMs = n.Ends.UnixMilli()
	}
	if n.Failure != nil {
		out.Failure = Failure(n.Failure)
	}
	return out
}

// ParseNotice reads a notice. known is false for kinds that a later version of the protocol has.
func ParseNotice(in *providerv1.Notice) (n cloud.Notice, known bool, err error) {
	kind, known := noticeKinds[in.GetKind()]
	n = cloud.Notice{Kind: kind, InstanceID: in.GetInstanceId(), Zone: in.GetZone()}
	if in.GetEndsUnixMs() > 0 {
		n.Ends = time.UnixMilli(in.GetEndsUnixMs())
	}
	if err := checkID("id of a notice", in.GetId()); err != nil {
		return n, known, err
	}
	if err := checkIDOrNone("instance_id", n.InstanceID); err != nil {
		return n, known, err
	}
	if in.GetFailure() != nil || n.Kind == cloud.LaunchFailed {
		err := ParseFailure(in.GetFailure())
		if n.Kind != cloud.LaunchFailed || !errors.As(err, &n.Failure) {
			return n, known, fmt.Errorf("kind %d with the failure %w; a definite refusal belongs to NOTICE_KIND_LAUNCH_FAILED, and to no other kind", in.GetKind(), err)
		}
	}
	return n, known, checkValue("zone", n.Zone)
}
