package verdict

import (
	"slices"
	"strings"
)

// Ends says until when the verdict holds or what would change it. If each pool refuses for a reason of
// its own, the end of any one of them is enough.
func (v Verdict) Ends() string {
	if v.Reason != NoPlace {
		return v.Reason.Ends()
	}
	var all []string
	for _, c := range v.Causes {
		if end := c.Ends(); end != "" && !slices.Contains(all, end) {
			all = append(all, end)
		}
	}
	if len(all) == 0 {
		return v.Reason.Ends()
	}
	return strings.Join(all, "; or ")
}

// Ends returns what would end a refusal for the reason, in words that follow "when" or "until": every "no"
// has an end. Empty for OK, and for reasons that are not of this package.
func (r Reason) Ends() string {
	if end := r.podEnds(); end != "" {
		return end
	}
	switch r {
	case NodeBlocked:
		return "what blocks the node is gone: the annotation is removed, the pod ends, or the PodDisruptionBudget allows an eviction"
	case BudgetExhausted:
		return "a disruption budget of the NodePool allows another node, or another node has gone"
	case ConsolidateAfterNotElapsed:
		return "no pod has come or gone for the NodePool's consolidateAfter"
	case Unconsolidatable:
		return "the node is empty, drifted or expired, or its pods fit on other nodes for less"
	case NoReplacement:
		return "another node has room for its pods, or one can be launched for them"
	case PoolPaused:
		return "the cooldown after the failed replacement is over"
	case DisruptionPaused:
		return "disruption is resumed: dovetail resume, or the annotation, ConfigMap or setting that pauses it is removed"
	case RepairBlocked:
		return "at most a fifth of the NodePool's nodes are unhealthy"
	case HeldByBuffer:
		return "the capacity buffer asks for fewer chunks, or they have room on other nodes"
	case BufferWaits:
		return "the buffer's dovetail.sh/refill-after has passed"
	case StepBroken:
		return "the cooldown of the node is over and a new command is found"
	default:
		return ""
	}
}

// podEnds is Ends of the reasons that are about pods.
func (r Reason) podEnds() string {
	switch r {
	case TaintNotTolerated:
		return "the pod tolerates the taint, or a NodePool without it allows the pod"
	case RequirementUnmet:
		return "the NodePool's requirements allow the value that the pod asks for, or the pod asks for another"
	case RequirementUndefined:
		return "a NodePool defines the label, or the pod does not ask for it"
	case ResourceShort:
		return "an instance type with enough of everything is allowed, or the pod asks for less"
	case TooLarge:
		return "a larger instance type is allowed, or the pod asks for less"
	case HostPortTaken:
		return "the pod or the DaemonSet uses another host port"
	case MinValuesUnmet:
		return "more instance types are available, or minValues is lowered"
	case SpreadUnmet:
		return "the pods that are counted are spread more evenly, or the constraint is relaxed"
	case AffinityUnmet:
		return "a pod that it must be with has a node where this one may be, or the affinity is relaxed"
	case AntiAffinityUnmet:
		return "the pods that it must be apart from leave a domain, or the anti-affinity is relaxed"
	case NoOffering:
		return "an offering that the pod allows is available again, or more zones and capacity types are allowed"
	case ReservationTaken:
		return "a reservation has room again, or other capacity types are allowed"
	case SupplyUsedUp:
		return "the cloud raises the supply, nodes that draw on it go, or other instance types are allowed"
	case NoCompatibleType:
		return "an instance type within the NodePool's requirements is available"
	case PoolLimitReached:
		return "spec.limits of the NodePool is raised, or nodes of it go"
	case PoolUnready:
		return "the NodePool and its node class are ready"
	case NoPool:
		return "a NodePool is created"
	case NoPlace:
		return "one of the NodePools allows it"
	case PodError:
		return "the pod is changed so that a node can fit it"
	case TooMuchEffort, DecisionFailed:
		return "the next decision about the pod, apart from others, finds it a place"
	case GangUnknown:
		return "the PodGroup exists"
	case GangIncomplete:
		return "enough pods of the gang ask for a node"
	case GangShort:
		return "enough pods of the gang can have a node"
	case ScaleUpDelayed:
		return "the delay that the pod asks for is over"
	case Expendable:
		return "the pod's priority reaches --expendable-pods-priority-cutoff, or a running node has room"
	default:
		return ""
	}
}
