package translate

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
)

// LifecycleClaim returns what the next step of a claim's life depends on of it. A
// deadline that cannot be read counts as none.
func LifecycleClaim(nc *karpenterv1.NodeClaim) lifecycle.Claim {
	c := lifecycle.Claim{
		HasFinalizer: controllerutil.ContainsFinalizer(nc, karpenterv1.TerminationFinalizer),
		ProviderID:   nc.Status.ProviderID,

		ProvisionalID: nc.Annotations[ProvisionalIDAnnotationKey],

		IsNew:       len(nc.Status.Conditions) == 0,
		Launched:    milestone(nc, karpenterv1.ConditionTypeLaunched),
		Registered:  milestone(nc, karpenterv1.ConditionTypeRegistered),
		Initialized: milestone(nc, karpenterv1.ConditionTypeInitialized),
		IsRebooting: IsRebooting(nc),

		InstanceTerminating: lifecycleCondition(nc, karpenterv1.ConditionTypeInstanceTerminating),

		Expires:       Expires(nc),
		Reclaimed:     Reclaimed(nc),
		StartupTaints: Taints(nc.Spec.StartupTaints),
		Requests:      Quantities(nc.Spec.Resources.Requests),
	}
	if nc.DeletionTimestamp != nil {
		c.DeletedAt = nc.DeletionTimestamp.Time
	}
	if drivers := nc.Annotations[karpenterv1.RequestedDRADriversAnnotationKey]; drivers != "" {
		c.Drivers = strings.Split(drivers, ",")
	}
	if grace := nc.Spec.TerminationGracePeriod; grace != nil {
		c.Grace, c.HasGrace = grace.Duration, true
	}
	c.Deadline, _ = Deadline(nc)
	return c
}

// LifecycleNode returns what the next step of a claim's life depends on of its Node.
func LifecycleNode(node *corev1.Node) lifecycle.Node {
	n := lifecycle.Node{
		Name:          node.Name,
		Deleting:      node.DeletionTimestamp != nil,
		Ready:         NodeReady(node),
		HasFinalizer:  controllerutil.ContainsFinalizer(node, karpenterv1.TerminationFinalizer),
		Finalizers:    othersFinalizers(node.Finalizers),
		IsRegistered:  node.Labels[karpenterv1.NodeRegisteredLabelKey] == karpenterv1.LabelValueTrue,
		IsInitialized: node.Labels[karpenterv1.NodeInitializedLabelKey] == karpenterv1.LabelValueTrue,
		Taints:        Taints(node.Spec.Taints),
		Allocatable:   Quantities(node.Status.Allocatable),
	}
	for i := range node.Spec.Taints {
		t := &node.Spec.Taints[i]
		n.IsUnregistered = n.IsUnregistered || IsUnregisteredTaint(*t)
		if IsEphemeralTaint(*t) {
			n.Ephemeral = append(n.Ephemeral, n.Taints[i])
		}
	}
	return n
}

// DrainClaim returns what a drain depends on of the Node's claim.
func DrainClaim(nc *karpenterv1.NodeClaim) (*lifecycle.DrainClaim, error) {
	deadline, err := Deadline(nc)
	if err != nil {
		return nil, err
	}
	return &lifecycle.DrainClaim{
		IsDeleting:      nc.DeletionTimestamp != nil,
		Deadline:        deadline,
		Drained:         lifecycleCondition(nc, karpenterv1.ConditionTypeDrained),
		VolumesDetached: lifecycleCondition(nc, karpenterv1.ConditionTypeVolumesDetached),

		InstanceTerminating: lifecycleCondition(nc, karpenterv1.ConditionTypeInstanceTerminating),
	}, nil
}

// DrainPod returns what a drain depends on of a pod, without its size and the
// PodDisruptionBudgets that may block its eviction.
func DrainPod(pod *corev1.Pod, now time.Time) lifecycle.DrainPod {
	p := lifecycle.DrainPod{
		PodRef: PodRef(pod), IsDaemon: OwnedByDaemonSet(pod), IsCritical: Critical(pod), Finalizers: pod.Finalizers,
	}
	if pod.DeletionTimestamp != nil {
		p.DeletedAt = pod.DeletionTimestamp.Time
	}
	p.Grace = Grace(pod)
	if hold := DoNotDisrupt(pod, now); hold.Active {
		p.IsHeld, p.BlockedBy = true, "annotation "+hold.Key
		if !hold.Until.IsZero() {
			p.BlockedBy += ", until " + hold.Until.UTC().Format(time.RFC3339)
		}
	}
	return p
}

// graceMax bounds the grace period of a pod, in seconds: a hundred years, which is within what a
// time can be moved by. The API server takes any number.
const graceMax = int64(100 * 365 * 24 * time.Hour / time.Second)

// Grace returns how long a pod may take to end.
func Grace(pod *corev1.Pod) time.Duration {
	if grace := pod.Spec.TerminationGracePeriodSeconds; grace != nil {
		return time.Duration(min(max(*grace, 0), graceMax)) * time.Second
	}
	return 0
}

// Expires returns when a claim is removed because of its age, or because the cloud will
// take its instance away; zero: never.
func Expires(nc *karpenterv1.NodeClaim) time.Time {
	expires, _ := time.Parse(time.RFC3339, nc.Annotations[ReplaceByAnnotationKey]) // we write it
	after := expireAfter(nc)
	if after.Duration == nil {
		return expires
	}
	old := nc.CreationTimestamp.Add(*after.Duration)
	if expires.IsZero() || old.Before(expires) {
		return old
	}
	return expires
}

// expireAfter returns the age at which a claim is removed. A claim of v1beta1 has none: what v1 reads there
// is the default, so what its pool says was written into an annotation. Until then it stays.
func expireAfter(nc *karpenterv1.NodeClaim) karpenterv1.NillableDuration {
	after := nc.Spec.ExpireAfter
	if text, has := nc.Annotations[ExpireAfterAnnotationKey]; has {
		if err := after.UnmarshalJSON([]byte(strconv.Quote(text))); err == nil { // we write it
			return after
		}
	}
	if IsOlderClaim(nc) {
		return karpenterv1.NillableDuration{}
	}
	return after
}

// IsOlderClaim reports whether a claim was made before there was v1, and has not been looked at since.
func IsOlderClaim(nc *karpenterv1.NodeClaim) bool {
	version := nc.Annotations[karpenterv1.NodePoolHashVersionAnnotationKey]
	return version == "v1" || version == "v2"
}

// Ageless returns the claim without its expiry by age. It is for static pools while the gate
// StaticCapacity is off: a node that expired would not be replaced.
func Ageless(nc *karpenterv1.NodeClaim) *karpenterv1.NodeClaim {
	ageless := *nc
	ageless.Spec.ExpireAfter = karpenterv1.NillableDuration{}
	return &ageless
}

// Reclaimed returns the kind of the cloud's notice if Expires is the time when the cloud takes the
// instance away; empty: it is not.
func Reclaimed(nc *karpenterv1.NodeClaim) string {
	by, err := time.Parse(time.RFC3339, nc.Annotations[ReplaceByAnnotationKey])
	if err != nil || !by.Equal(Expires(nc)) {
		return ""
	}
	return nc.Annotations[InterruptionAnnotationKey]
}

// Deadline returns when the drain of a claim's node ends what is left; zero: it has no end.
func Deadline(nc *karpenterv1.NodeClaim) (time.Time, error) {
	text := nc.Annotations[karpenterv1.NodeClaimTerminationTimestampAnnotationKey]
	if text == "" {
		return time.Time{}, nil
	}
	deadline, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("read annotation %s of claim %s: %w",
			karpenterv1.NodeClaimTerminationTimestampAnnotationKey, nc.Name, err)
	}
	return deadline, nil
}

// milestone returns one of the conditions that Ready follows from. While nobody has
// judged it, it is Unknown, since the claim's creation.
func milestone(nc *karpenterv1.NodeClaim, conditionType string) lifecycle.Condition {
	c := lifecycleCondition(nc, conditionType)
	if c.Status == "" {
		return lifecycle.Condition{Status: lifecycle.Unknown, Since: nc.CreationTimestamp.Time}
	}
	return c
}

func lifecycleCondition(nc *karpenterv1.NodeClaim, conditionType string) lifecycle.Condition {
	c := meta.FindStatusCondition(nc.Status.Conditions, conditionType)
	if c == nil {
		return lifecycle.Condition{}
	}
	return lifecycle.Condition{Status: lifecycle.Status(c.Status), Since: c.LastTransitionTime.Time}
}

// NodeConditions returns what a Node says of itself.
func NodeConditions(node *corev1.Node) []lifecycle.NodeCondition {
	conditions := make([]lifecycle.NodeCondition, 0, len(node.Status.Conditions))
	for _, c := range node.Status.Conditions {
		conditions = append(conditions, lifecycle.NodeCondition{Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Since: c.LastTransitionTime.Time})
	}
	return conditions
}

// othersFinalizers returns those that are not ours.
func othersFinalizers(finalizers []string) []string {
	var others []string
	for _, f := range finalizers {
		if f != karpenterv1.TerminationFinalizer {
			others = append(others, f)
		}
	}
	return others
}
