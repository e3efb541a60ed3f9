package verdict

// Ends returns what would end a refusal for the reason, in words that follow "ends" and begin with "when":
// every "no" has an end. Empty for OK, and for reasons that are not of this package.
func (r Reason) Ends() string {
	if end := r.podEnds(); end != "" {
		return end
	}
	switch r {
	case NodeBlocked:
		return "when what blocks the node is gone: the annotation is removed, the pod ends, or the PodDisruptionBudget allows an eviction"
	case BudgetExhausted:
		return "when a disruption budget of the NodePool allows another node, or another node has gone"
	case ConsolidateAfterNotElapsed:
		return "when no pod has come or gone for the NodePool's consolidateAfter"
	case Unconsolidatable:
		return "when the node is empty, drifted or expired, or its pods fit on other nodes for less"
	case NoReplacement:
		return "when another node has room for its pods, or one can be launched for them"
	case PoolPaused:
		return "when the cooldown after the failed replacement is over"
	case RepairBlocked:
		return "when at most a fifth of the NodePool's nodes are unhealthy"
	case HeldByBuffer:
		return "when the capacity buffer asks for fewer chunks, or they have room on other nodes"
	case BufferWaits:
		return "when the buffer's dovetail.sh/refill-after has passed"
	case StepBroken:
		return "when the cooldown of the node is over and a new command is found"
	default:
		return ""
	}
}

// podEnds is Ends of the reasons that are about pods.
func (r Reason) podEnds() string {
	switch r {
	case TaintNotTolerated:
		return "when the pod tolerates the taint, or a NodePool without it allows the pod"
	case RequirementUnmet:
		return "when the NodePool's requirements allow the value that the pod asks for, or the pod asks for another"
	case RequirementUndefined:
		return "when a NodePool defines the label, or the pod does not ask for it"
	case ResourceShort:
		return "when an instance type with enough of everything is allowed, or the pod asks for less"
	case TooLarge:
		return "when a larger instance type is allowed, or the pod asks for less"
	case HostPortTaken:
		return "when the pod or the DaemonSet uses another host port"
	case MinValuesUnmet:
		return "when more instance types are available, or minValues is lowered"
	case SpreadUnmet:
		return "when the pods that are counted are spread more evenly, or the constraint is relaxed"
	case AffinityUnmet:
		return "when a pod that it must be with has a node where this one may be, or the affinity is relaxed"
	case AntiAffinityUnmet:
		return "when the pods that it must be apart from leave a domain, or the anti-affinity is relaxed"
	case NoOffering:
		return "when an offering that the pod allows is available again, or more zones and capacity types are allowed"
	case ReservationTaken:
		return "when a reservation has room again, or other capacity types are allowed"
	case NoCompatibleType:
		return "when an instance type within the NodePool's requirements is available"
	case PoolLimitReached:
		return "when spec.limits of the NodePool is raised, or nodes of it go"
	case PoolUnready:
		return "when the NodePool and its node class are ready"
	case NoPool:
		return "when a NodePool is created"
	case NoPlace:
		return "when one of the NodePools allows it"
	case PodError:
		return "when the pod is changed so that a node can fit it"
	case TooMuchEffort, DecisionFailed:
		return "when the next decision about the pod, apart from others, finds it a place"
	case GangUnknown:
		return "when the PodGroup exists"
	case GangIncomplete:
		return "when enough pods of the gang ask for a node"
	case GangShort:
		return "when enough pods of the gang can have a node"
	case ScaleUpDelayed:
		return "when the delay that the pod asks for is over"
	case Expendable:
		return "when the pod's priority reaches --expendable-pods-priority-cutoff, or a running node has room"
	default:
		return ""
	}
}
