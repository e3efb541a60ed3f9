package verdict

import (
	"slices"
	"strings"
)

// Ends says until when a refusal holds or what would change it, in words that follow "until"; every
// reason has some. Empty: yes has no end.
func Ends(r Reason) string { return ends[r] }

//nolint:gochecknoglobals // a constant
var ends = map[Reason]string{
	TaintNotTolerated:    "the pod tolerates the taint, or a pool has nodes without it",
	RequirementUnmet:     "a pool allows the value that the pod requires, or the pod requires another",
	RequirementUndefined: "a pool has the label in its template or requirements, or the pod does not require it",
	ResourceShort:        "a pool allows a type that has enough of each, or the pod asks for less",
	TooLarge:             "a pool allows a type that has as much for pods, or the pod asks for less",
	HostPortTaken:        "the pod that has the port is gone, or another node is launched",
	MinValuesUnmet:       "more types are available, or the pool's minValues is lower",
	SpreadUnmet:          "a node can be launched or has room in a domain with fewer of the pods",
	AffinityUnmet:        "a pod that it must be with has a node with room",
	AntiAffinityUnmet:    "the pod that it must not be with is elsewhere, or another domain has room",
	NoOffering:           "an offering is available: a shortage is forgotten after three minutes, and then tried again",
	ReservationTaken:     "an instance of the reservation ends, or the pool allows another capacity type",
	NoCompatibleType:     "a type within the requirements is available, or the requirements allow another",
	PoolLimitReached:     "nodes of the pool go, or its limits are raised",
	PoolUnready:          "the pool and its node class are ready: their conditions say what is missing",
	NoPool:               "there is a NodePool",
	NoPlace:              "the reason of one of the pools ends",
	PodError:             "the pod, or the volume that it names, is changed",
	TooMuchEffort:        "its quarantine is over, when it is decided about apart from others",
	DecisionFailed:       "its quarantine is over, when it is decided about apart from others; report it as a bug",
	GangUnknown:          "its PodGroup exists",
	GangIncomplete:       "the gang has as many pods as its minCount",
	GangShort:            "as many pods of the gang as its minCount could have a node",
	ScaleUpDelayed:       "the delay that its annotation asks for has passed",
	Expendable:           "its priority is at least the cutoff, or a running node has room",

	NodeBlocked:                "what blocks it ends: the annotation is taken off, the pod is gone, or its PodDisruptionBudget allows an eviction",
	BudgetExhausted:            "a disruption in progress ends, or the schedule of a budget allows more",
	ConsolidateAfterNotElapsed: "consolidateAfter has passed since the last pod came or went",
	Unconsolidatable:           "its pods or its price change; it goes when it is empty, drifted or expired",
	NoReplacement:              "another node has room for its pods, or one can be launched for them",
	PoolPaused:                 "the cooldown after the failed replacement is over: ten minutes at most",
	RepairBlocked:              "fewer nodes of the pool are unhealthy",
	HeldByBuffer:               "other nodes have room for the chunks, or the buffer asks for fewer",
	BufferWaits:                "the time that its annotation refill-after asks for has passed",
	StepBroken:                 "the next search finds another command",
}

// Ends says until when the verdict holds or what would change it. If each pool refuses for a reason of
// its own, the end of any one of them is enough.
func (v Verdict) Ends() string {
	if v.Reason != NoPlace {
		return Ends(v.Reason)
	}
	var all []string
	for _, c := range v.Causes {
		if end := c.Ends(); end != "" && !slices.Contains(all, end) {
			all = append(all, end)
		}
	}
	if len(all) == 0 {
		return Ends(v.Reason)
	}
	return strings.Join(all, "; or ")
}
