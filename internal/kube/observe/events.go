package observe

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	failedSchedulingDedupe = 5 * time.Minute
	poolDedupe             = time.Minute
	pausedDedupe           = 30 * time.Minute
	unconsolidatableDedupe = 15 * time.Minute
	repairDedupe           = 15 * time.Minute
	rebootDedupe           = 30 * time.Minute
	// namesMost is how many names one message lists.
	namesMost = 5
)

// Nominated says on a pod which NodeClaim and node it is planned for. Either may be empty.
func Nominated(claim, node string) Event {
	var targets []string
	if claim != "" {
		targets = append(targets, "nodeclaim/"+claim)
	}
	if node != "" {
		targets = append(targets, "node/"+node)
	}
	where := strings.Join(targets, ", ")
	return Event{Reason: "Nominated", Type: corev1.EventTypeNormal, Message: "Pod should schedule on: " + where, DedupeValues: []string{where}, Limit: limitNominated}
}

// FailedScheduling says on a pod why no node, existing or new, can take it.
func FailedScheduling(why string) Event {
	return Event{Reason: "FailedScheduling", Type: corev1.EventTypeWarning, Message: why, Dedupe: failedSchedulingDedupe, Limit: pacedRefused}
}

// NoCompatibleInstanceTypes says on a NodePool that none of the provider's types fit it.
func NoCompatibleInstanceTypes(why string) Event {
	return Event{Reason: "NoCompatibleInstanceTypes", Type: corev1.EventTypeWarning, Message: why, Dedupe: poolDedupe}
}

// DisruptionBlocked says on a Node or NodeClaim why it is not disrupted although there is a reason.
func DisruptionBlocked(why string) Event {
	return Event{Reason: "DisruptionBlocked", Type: corev1.EventTypeNormal, Message: why, DedupeValues: []string{why}, Limit: pacedBlocked}
}

// PoolDisruptionBlocked says on a NodePool why none of its nodes is disrupted.
func PoolDisruptionBlocked(why string) Event {
	e := DisruptionBlocked(why)
	e.Dedupe, e.Limit = poolDedupe, ""
	return e
}

// DisruptionPaused says on a NodePool that none of its nodes is disrupted by choice, and why.
func DisruptionPaused(why string) Event {
	return Event{Reason: "DisruptionPaused", Type: corev1.EventTypeNormal, Message: "No node is removed or replaced by choice: " + why, DedupeValues: []string{why}, Dedupe: pausedDedupe}
}

// DisruptionResumed says on a NodePool that its nodes are disrupted again.
func DisruptionResumed() Event {
	return Event{Reason: "DisruptionResumed", Type: corev1.EventTypeNormal, Message: "Nodes are removed and replaced by choice again"}
}

// NodeClassAssumed says on a NodePool that it names no node class, and which one it has been given.
func NodeClassAssumed(class string) Event {
	return Event{Reason: "NodeClassAssumed", Type: corev1.EventTypeNormal, Message: "spec.template.spec.nodeClassRef was not set: it is now " + class, DedupeValues: []string{class}}
}

// AnnotationIgnored says on a NodePool that one of our annotations cannot be read.
func AnnotationIgnored(why string) Event {
	return Event{Reason: "AnnotationIgnored", Type: corev1.EventTypeWarning, Message: why, DedupeValues: []string{why}, Dedupe: unconsolidatableDedupe}
}

// DisruptionLaunching says on a NodeClaim that it was launched to replace others, and why.
func DisruptionLaunching(why string) Event {
	return Event{Reason: "DisruptionLaunching", Type: corev1.EventTypeNormal, Message: "Launching to replace nodes: " + why, DedupeValues: []string{why}}
}

// DisruptionWaitingReadiness says on a NodeClaim that nodes stay until it is ready.
func DisruptionWaitingReadiness() Event {
	return Event{Reason: "DisruptionWaitingReadiness", Type: corev1.EventTypeNormal, Message: "The nodes that it replaces stay until it is initialized"}
}

// Unconsolidatable says on a Node or NodeClaim why consolidation would save nothing.
func Unconsolidatable(why string) Event {
	return Event{Reason: "Unconsolidatable", Type: corev1.EventTypeNormal, Message: why, Dedupe: unconsolidatableDedupe, Limit: pacedUnconsolidatable}
}

// ConsolidationCandidate says on a Node or NodeClaim that consolidation is about to remove it,
// and what that saves.
func ConsolidationCandidate(what string) Event {
	return Event{Reason: "ConsolidationCandidate", Type: corev1.EventTypeNormal, Message: what, DedupeValues: []string{what}}
}

// ConsolidationApproved says on a Node and its NodeClaim, or on a NodePool if several nodes are
// removed, that a pool with the policy Balanced finds the saving worth the disruption.
func ConsolidationApproved(why string) Event {
	return Event{Reason: "ConsolidationApproved", Type: corev1.EventTypeNormal, Message: why, DedupeValues: []string{why}}
}

// ConsolidationRejected says on a Node or NodeClaim why its removal was cancelled.
func ConsolidationRejected(why string) Event {
	return Event{Reason: "ConsolidationRejected", Type: corev1.EventTypeNormal, Message: why, DedupeValues: []string{why}}
}

// DisruptionTerminating says on a Node or NodeClaim that it is removed, and why.
func DisruptionTerminating(why string) Event {
	return Event{Reason: "DisruptionTerminating", Type: corev1.EventTypeNormal, Message: "Disrupting: " + why, DedupeValues: []string{why}}
}

// TerminatingOnInterruption says on a Node or NodeClaim that it is removed because of a notice
// of the cloud, and the kind of the notice.
func TerminatingOnInterruption(kind string) Event {
	return Event{Reason: "TerminatingOnInterruption", Type: corev1.EventTypeWarning, Message: "Removed because of the cloud's notice: " + kind, DedupeValues: []string{kind}}
}

// ZonalShift says on a NodePool that a zone is avoided for some time, or used again.
func ZonalShift(n cloud.Notice) Event {
	if n.Kind == cloud.ZoneRestored {
		return Event{Reason: "ZonalShiftCleared", Type: corev1.EventTypeNormal, Message: "Zone " + n.Zone + " is used again", DedupeValues: []string{n.Zone}}
	}
	return Event{
		Reason: "ZonalShiftActive", Type: corev1.EventTypeWarning, DedupeValues: []string{n.Zone},
		Message: "Zone " + n.Zone + " is shifted away from until " + n.Ends.UTC().Format(time.RFC3339) + ": nothing is launched or ended there",
	}
}

// Interrupted says on a Node or NodeClaim what a notice of the cloud says of its instance; ends
// is when that happens, if the notice has a time.
func Interrupted(kind cloud.NoticeKind, ends time.Time) Event {
	known := map[cloud.NoticeKind]Event{
		cloud.Reclaimed:            {Reason: "SpotInterrupted", Type: corev1.EventTypeWarning, Message: "The cloud will reclaim the spot instance"},
		cloud.ReservationReclaimed: {Reason: "CapacityReservationInstanceInterrupted", Type: corev1.EventTypeWarning, Message: "The owner will reclaim the capacity reservation"},
		cloud.ReservationEnding:    {Reason: "CapacityReservationInstanceInterrupted", Type: corev1.EventTypeWarning, Message: "The capacity reservation ends and its instances are reclaimed"},
		cloud.RebalanceRecommended: {Reason: "SpotRebalanceRecommendation", Type: corev1.EventTypeNormal, Message: "The spot instance is likely to be reclaimed"},
		cloud.MaintenanceScheduled: {Reason: "InstanceUnhealthy", Type: corev1.EventTypeWarning, Message: "Maintenance of the instance is scheduled"},
		cloud.Stopped:              {Reason: "InstanceStopping", Type: corev1.EventTypeWarning, Message: "The instance is stopping or stopped"},
		cloud.Ended:                {Reason: "InstanceTerminating", Type: corev1.EventTypeWarning, Message: "The instance is terminating or terminated"},
	}
	e, ok := known[kind]
	if !ok {
		e = Event{Reason: "InstanceUnhealthy", Type: corev1.EventTypeWarning, Message: "The instance fails the cloud's checks"}
	}
	if !ends.IsZero() {
		e.Message += " at " + ends.UTC().Format(time.RFC3339)
	}
	e.DedupeValues = []string{string(kind)}
	return e
}

// Evicted says on a pod that it was evicted, and why.
func Evicted(why string) Event {
	return Event{Reason: "Evicted", Type: corev1.EventTypeNormal, Message: "Evicted pod: " + why}
}

// Disrupted says on a pod that it was deleted because the deadline of its node is near.
func Disrupted(why string) Event {
	return Event{Reason: "Disrupted", Type: corev1.EventTypeNormal, Message: why}
}

// FailedDraining says on a Node what blocks its drain.
func FailedDraining(why string) Event {
	return Event{Reason: "FailedDraining", Type: corev1.EventTypeWarning, Message: "Node cannot be drained yet: " + why}
}

// TerminationGracePeriodExpiring says on a Node or NodeClaim when pods will be deleted by force.
func TerminationGracePeriodExpiring(deadline time.Time) Event {
	when := deadline.UTC().Format(time.RFC3339)
	return Event{
		Reason: "TerminationGracePeriodExpiring", Type: corev1.EventTypeWarning,
		Message: "All pods will be deleted by " + when, DedupeValues: []string{when},
	}
}

// ConditionChanged says on a NodeClaim or NodePool that a condition changed. Its reason is
// the condition's type.
func ConditionChanged(t Transition) Event {
	was := t.From
	if was == "" {
		was = metav1.ConditionUnknown
	}
	message := fmt.Sprintf("Condition %s became %s, was %s; reason %s", t.Type, t.Status, was, t.Reason)
	if t.Message != "" {
		message += ": " + t.Message
	}
	return Event{Reason: t.Type, Type: corev1.EventTypeNormal, Message: message, DedupeValues: []string{string(t.From), string(t.Status)}}
}

// Finalized says on a NodeClaim or NodePool that its deletion is complete.
func Finalized() Event {
	return Event{Reason: "Finalized", Type: corev1.EventTypeNormal, Message: "Finalized"}
}

// FailedTermination says on a NodeClaim what delays its termination for long.
func FailedTermination(why string) Event {
	return Event{Reason: "FailedTermination", Type: corev1.EventTypeWarning, Message: "Termination delayed: " + why}
}

// NodeRepairBlocked says on a Node, NodeClaim or NodePool why an unhealthy node is not repaired.
func NodeRepairBlocked(why string) Event {
	return Event{Reason: "NodeRepairBlocked", Type: corev1.EventTypeWarning, Message: why, Dedupe: repairDedupe}
}

// RebootObserved says on a NodeClaim that its node has booted.
func RebootObserved(token string) Event {
	return Event{Reason: "RebootObserved", Type: corev1.EventTypeNormal, Message: "The node has booted", Dedupe: rebootDedupe, DedupeValues: []string{token}}
}

// RebootFailed says on a NodeClaim why its reboot failed.
func RebootFailed(token, why string) Event {
	return Event{Reason: "RebootFailed", Type: corev1.EventTypeWarning, Message: "The reboot failed: " + why, Dedupe: rebootDedupe, DedupeValues: []string{token}}
}

// AwaitingVolumeDetachment says on a Node which volumes are still attached to it.
func AwaitingVolumeDetachment(attachments []string) Event {
	return Event{
		Reason: "AwaitingVolumeDetachment", Type: corev1.EventTypeNormal,
		Message: fmt.Sprintf("Awaiting deletion of %d volume attachments: %s", len(attachments), listed(attachments)),
	}
}

// FailedConsistencyCheck says on a NodeClaim how its Node differs from what was expected.
func FailedConsistencyCheck(why string) Event {
	return Event{Reason: "FailedConsistencyCheck", Type: corev1.EventTypeWarning, Message: why, DedupeValues: []string{why}}
}

// InsufficientCapacityError says on a NodeClaim that the cloud has no such instance now.
func InsufficientCapacityError(why string) Event {
	return Event{Reason: "InsufficientCapacityError", Type: corev1.EventTypeWarning, Message: why}
}

// PodLaunchFailed says on a pod that the NodeClaim that it was planned for got no instance.
func PodLaunchFailed(claim, why string) Event {
	return Event{
		Reason: "InsufficientCapacityError", Type: corev1.EventTypeWarning, DedupeValues: []string{claim}, Limit: limitLaunchFailed,
		Message: "NodeClaim " + claim + " nominated for this pod failed to launch: " + why,
	}
}

// UnregisteredTaintMissing says on a NodeClaim that its Node joined without the taint
// that keeps pods away until it is registered.
func UnregisteredTaintMissing() Event {
	return Event{
		Reason: "UnregisteredTaintMissing", Type: corev1.EventTypeWarning,
		Message: "Node joined without the taint karpenter.sh/unregistered:NoExecute, so pods may have bound to it too early",
	}
}

// NodeClassNotReady says on a NodeClaim that its node class cannot be used.
func NodeClassNotReady(why string) Event {
	return Event{Reason: "NodeClassNotReady", Type: corev1.EventTypeWarning, Message: why}
}

// InvalidDoNotDisruptAnnotation says on a pod or Node that its annotation
// karpenter.sh/do-not-disrupt has an invalid value.
func InvalidDoNotDisruptAnnotation(value string) Event {
	return Event{
		Reason: "InvalidDoNotDisruptAnnotation", Type: corev1.EventTypeWarning,
		Message:      fmt.Sprintf("Annotation karpenter.sh/do-not-disrupt is %q, which is neither true nor a positive duration", value),
		DedupeValues: []string{value}, Limit: limitDoNotDisrupt,
	}
}

// DoNotDisrupt returns the event about what a pod's annotation karpenter.sh/do-not-disrupt means now;
// false: it protects the pod for ever under its own name, or there is none.
func DoNotDisrupt(pod *corev1.Pod, now time.Time) (Event, bool) {
	switch hold := translate.DoNotDisrupt(pod, now); {
	case hold.Invalid:
		return InvalidDoNotDisruptAnnotation(pod.Annotations[karpenterv1.DoNotDisruptAnnotationKey]), true
	case hold.IsOlder:
		return OlderAnnotation(hold.Key), true
	case hold.Until.IsZero():
		return Event{}, false
	case hold.Active:
		return DoNotDisruptUntil(hold.Until), true
	default:
		return DoNotDisruptGracePeriodElapsed(), true
	}
}

// OlderAnnotation says on a pod or Node that its annotation is spelled as versions before v1 spelled it.
func OlderAnnotation(key string) Event {
	return Event{
		Reason: "OlderAnnotation", Type: corev1.EventTypeNormal, Limit: limitDoNotDisrupt, Dedupe: unconsolidatableDedupe,
		Message: "Annotation " + key + " counts as karpenter.sh/do-not-disrupt, which has taken its place: use that", DedupeValues: []string{key},
	}
}

// DoNotDisruptUntil says on a pod until when its annotation protects it.
func DoNotDisruptUntil(end time.Time) Event {
	when := end.UTC().Format(time.RFC3339)
	return Event{
		Reason: "DoNotDisruptUntil", Type: corev1.EventTypeNormal, Limit: limitDoNotDisrupt,
		Message: "Annotation karpenter.sh/do-not-disrupt protects the pod until " + when, DedupeValues: []string{when},
	}
}

// DoNotDisruptGracePeriodElapsed says on a pod that its annotation no longer protects it.
func DoNotDisruptGracePeriodElapsed() Event {
	return Event{
		Reason: "DoNotDisruptGracePeriodElapsed", Type: corev1.EventTypeNormal, Limit: limitDoNotDisrupt,
		Message: "The duration in annotation karpenter.sh/do-not-disrupt has elapsed",
	}
}

// listed joins the first few names and says how many more there are.
func listed(names []string) string {
	if more := len(names) - namesMost; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:namesMost], ", "), more)
	}
	return strings.Join(names, ", ")
}
