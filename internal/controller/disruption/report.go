package disruption

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/budget"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// label returns a reason as metrics have it.
func label(reason string) string { return strings.ToLower(reason) }

// kindOf returns the label consolidation_type of a step that removes so many nodes for
// a reason.
func kindOf(reason string, nodes int) string {
	switch {
	case reason == disrupt.Empty:
		return "empty"
	case reason != disrupt.Underutilized:
		return ""
	case nodes > 1:
		return "multi"
	default:
		return "single"
	}
}

// reportBegun counts and logs a step that was begun, as far as it was.
func (l *Loop) reportBegun(s *plan.Command, launched []apply.Launched, err error) {
	if err != nil {
		l.log().Info("could not begin a step, it will be taken back", "step", s.ID, "reason", s.Reason, "error", err)
	}
	decision := decisionOf(s)
	if err == nil {
		l.Metrics.VoluntaryDisruptionDecisions.WithLabelValues(decision, label(s.Reason), kindOf(s.Reason, len(s.Remove))).Inc()
		pools := map[string]bool{}
		for _, r := range s.Remove {
			if !pools[r.Pool] {
				pools[r.Pool] = true
				l.Metrics.VoluntaryDisruptionDecisionsByNodePool.WithLabelValues(r.Pool, decision, label(s.Reason), kindOf(s.Reason, len(s.Remove))).Inc()
				if s.TerminateFirst != "" {
					l.Metrics.VoluntaryDisruptionTerminateFirstDecisions.WithLabelValues(r.Pool, label(s.Reason), s.TerminateFirst).Inc()
				}
			}
		}
	}
	for _, done := range launched {
		l.Metrics.NodeClaimsCreated.WithLabelValues(label(s.Reason), done.Launch.Pool, strconv.FormatBool(done.Launch.MinValuesRelaxed)).Inc()
		l.event(done.Claim, observe.DisruptionLaunching(s.Reason))
	}
	nodes, claims := []string{}, []string{} // an empty list is logged as one
	for _, r := range s.Remove {
		nodes = append(nodes, r.Node)
		if err == nil && s.Reason == disrupt.Underutilized {
			l.onNode(r.Node, r.Claim, observe.ConsolidationCandidate(fmt.Sprintf(
				"removes %d nodes, launches %d: saves $%.4f per hour, evicts %d pods", len(s.Remove), len(s.Launch), s.SavingHourly, s.Evictions)))
		}
	}
	for _, done := range launched {
		claims = append(claims, done.Claim.Name)
	}
	observe.Logged(l.log(), observe.LogDisrupting, "command-id", s.ID, "reason", label(s.Reason), "decision", decision,
		"disrupted-node-count", len(nodes), "replacement-node-count", len(claims), "pod-count", s.Evictions,
		"disrupted-nodes", logged(s.Remove), "replacement-nodes", claims, "nodes", nodes, "saving_hourly", s.SavingHourly)
}

// loggedNode is a node as a log line lists it.
type loggedNode struct {
	Node, NodeClaim struct {
		Name string `json:"name"`
	}
}

func logged(removals []plan.Removal) []loggedNode {
	nodes := make([]loggedNode, len(removals))
	for i := range removals {
		nodes[i].Node.Name, nodes[i].NodeClaim.Name = removals[i].Node, removals[i].Claim
	}
	return nodes
}

// decisionOf returns the label decision of a step.
func decisionOf(s *plan.Command) string {
	switch {
	case s.TerminateFirst != "":
		return observe.DecisionTerminateFirst
	case len(s.Launch) > 0:
		return observe.DecisionReplace
	default:
		return observe.DecisionDelete
	}
}

// reportUndo counts and logs a step that is undone.
func (l *Loop) reportUndo(u *plan.Undo) {
	decision := observe.DecisionDelete
	if u.Failed {
		decision = observe.DecisionReplace
	}
	if kind := kindOf(u.Reason, len(u.Open)); kind != "" && !u.Failed {
		l.Metrics.VoluntaryDisruptionFailedValidations.WithLabelValues(kind).Inc()
	} else {
		l.Metrics.VoluntaryDisruptionQueueFailures.WithLabelValues(decision, label(u.Reason), kind).Inc()
	}
	var nodes []string
	for _, r := range u.Open {
		nodes = append(nodes, r.Node)
		if u.Reason == disrupt.Underutilized {
			l.onNode(r.Node, r.Claim, observe.ConsolidationRejected(u.Why.String()))
			continue
		}
		l.onNode(r.Node, r.Claim, observe.DisruptionBlocked(u.Why.String()))
	}
	l.log().Info("took back a step", "step", u.Command, "reason", u.Reason, "nodes", nodes, "dropped", len(u.Drop), "why", u.Why.String())
}

// reportReboot counts and says that a node is rebooted.
func (l *Loop) reportReboot(snap *cluster.Snapshot, r *plan.Reboot) {
	kind := kindOf(disrupt.Unhealthy, 1)
	l.Metrics.VoluntaryDisruptionDecisions.WithLabelValues(observe.DecisionReboot, label(disrupt.Unhealthy), kind).Inc()
	l.Metrics.VoluntaryDisruptionDecisionsByNodePool.WithLabelValues(r.Pool, observe.DecisionReboot, label(disrupt.Unhealthy), kind).Inc()
	if nc, ok := l.Mirror.ClaimObject(r.Claim); ok {
		l.countDisrupted(snap, plan.Removal{Node: r.Node, Claim: r.Claim, Pool: r.Pool, Reason: disrupt.Unhealthy, Condition: r.Condition, Bound: r.Bound}, nc)
	}
	l.log().Info("rebooting node", "node", r.Node, "claim", r.Claim, "pool", r.Pool, "condition", r.Condition, "reason", r.Cause)
}

// reportRemoval counts and says that a node goes.
func (l *Loop) reportRemoval(snap *cluster.Snapshot, r plan.Removal, nc *karpenterv1.NodeClaim) {
	event := observe.DisruptionTerminating(r.Reason)
	if kind := translate.Reclaimed(nc); r.Reason == disrupt.Interrupted && kind != "" {
		event = observe.TerminatingOnInterruption(kind)
	}
	pods, idle := l.countDisrupted(snap, r, nc)
	l.log().Info("removed node", "node", r.Node, "claim", r.Claim, "pool", r.Pool, "pods", pods, "quiet_for", idle, "reason", r.Reason)
	l.onNode(r.Node, r.Claim, event)
}

// countDisrupted counts a node that goes, or is rebooted, and its pods. It returns how many these are,
// and since when none came or went.
func (l *Loop) countDisrupted(snap *cluster.Snapshot, r plan.Removal, nc *karpenterv1.NodeClaim) (pods int, idle time.Duration) {
	policy := ""
	if pool, ok := snap.PoolByName(r.Pool); ok && (r.Reason == disrupt.Underutilized || r.Reason == disrupt.Empty) {
		policy = observe.PolicyLabel(pool.Policy)
	}
	reason := label(r.Reason)
	if kind := translate.Reclaimed(nc); r.Reason == disrupt.Interrupted && kind != "" {
		reason = kind
	}
	mode := terminationMode(r, nc)
	capacityType := nc.Labels[karpenterv1.CapacityTypeLabelKey]
	if r.Reason == disrupt.Unhealthy {
		l.Metrics.NodeClaimsUnhealthyDisrupted.WithLabelValues(observe.ConditionLabel(r.Condition), r.Pool, capacityType, nc.Status.ImageID, mode).Inc()
	}
	how := []string{reason, r.Pool, capacityType, policy, mode}
	l.Metrics.NodeClaimsDisrupted.WithLabelValues(how...).Inc()
	for i := range snap.Nodes {
		if n := &snap.Nodes[i]; n.Claim == r.Claim {
			pods, idle = len(n.Reschedulable), snap.At.Sub(n.LastPodEvent).Round(time.Second)
		}
	}
	l.Metrics.PodsDisruptionInitiated.WithLabelValues(how...).Add(float64(pods))
	return pods, idle
}

// reportPools sets what the budgets allow now.
func (l *Loop) reportPools(snap *cluster.Snapshot) {
	opts := disrupt.Options{Repair: disrupt.Repair{On: l.Repair}}
	ledger := budget.Open(snap)
	for i := range snap.Pools {
		pool := snap.Pools[i].Name
		if np, ok := l.Mirror.PoolObject(pool); ok {
			for _, why := range translate.UnreadAnnotations(np) {
				l.onPool(pool, observe.AnnotationIgnored(why))
			}
		}
		for n, b := range snap.Pools[i].Budgets {
			if b.Invalid != "" {
				l.onPool(pool, observe.PoolDisruptionBlocked(fmt.Sprintf("spec.disruption.budgets[%d] cannot be read and so allows nothing: %s", n, b.Invalid)))
			}
		}
		for _, reason := range opts.BudgetReasons() {
			l.Metrics.NodePoolsAllowedDisruptions.WithLabelValues(pool, label(reason)).Set(float64(ledger.Allowed(pool, reason)))
			l.Metrics.NodePoolsNodesConsumingBudgets.WithLabelValues(pool, label(reason)).Set(float64(ledger.Used(pool, reason)))
			if snap.Pools[i].Paused == "" && l.hasNodes(snap, pool) && ledger.Allowed(pool, reason) == 0 {
				l.onPool(pool, observe.PoolDisruptionBlocked("the budgets allow no disruption for "+reason+" now"))
			}
		}
	}
}

// reportPaused shows of which pools disruption is paused, and says so when that changes. A pause that is
// forgotten is repeated as an event.
func (l *Loop) reportPaused(snap *cluster.Snapshot) {
	now := make(map[string]string, len(snap.Pools))
	for i := range snap.Pools {
		pool, why := snap.Pools[i].Name, snap.Pools[i].Paused
		now[pool] = why
		isPaused := 0.0
		if why != "" {
			isPaused = 1
			l.onPool(pool, observe.DisruptionPaused(why))
		}
		l.Metrics.DisruptionPaused.WithLabelValues(pool).Set(isPaused)
		switch why {
		case l.paused[pool]:
		case "":
			l.Log.Info("disruption resumed", "pool", pool)
			l.onPool(pool, observe.DisruptionResumed())
		default:
			l.Log.Warn("disruption paused", "pool", pool, "reason", why)
		}
	}
	for pool := range l.paused {
		if _, there := now[pool]; !there {
			l.Metrics.DisruptionPaused.DeleteLabelValues(pool)
		}
	}
	l.paused = now
}

func (l *Loop) hasNodes(snap *cluster.Snapshot, pool string) bool {
	for i := range snap.Nodes {
		if n := &snap.Nodes[i]; n.Pool == pool && n.Claim != "" && n.Initialized {
			return true
		}
	}
	return false
}

// reportWaiting says on replacements that are not initialized that nodes wait for them.
func (l *Loop) reportWaiting(snap *cluster.Snapshot) {
	steps := map[string]bool{}
	for i := range snap.Nodes {
		if n := &snap.Nodes[i]; n.Step != "" && n.DisruptionReason != "" && !n.Deleting {
			steps[n.Step] = true
		}
	}
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		if nc, ok := l.Mirror.ClaimObject(n.Claim); ok && steps[n.Replaces] && !n.Initialized {
			l.event(nc, observe.DisruptionWaitingReadiness())
		}
	}
}

// reportScores counts what pools that want balance found of steps, and says of those that are begun
// that they did: on the node, or on the pool where several go at once.
func (l *Loop) reportScores(p *plan.Disruption) {
	for _, s := range p.Scores {
		decision := observe.MoveRejected
		if s.Approved {
			decision = observe.MoveApproved
		}
		labels := []string{decision, s.Pool, observe.PolicyLabel(cluster.PolicyBalanced)}
		l.Metrics.ConsolidationScore.WithLabelValues(labels...).Observe(s.Value)
		l.Metrics.ConsolidationMoves.WithLabelValues(labels...).Inc()
		for i := range p.Commands {
			step := &p.Commands[i]
			if !s.Approved || step.Remove[0].Node != s.Node {
				continue
			}
			event := observe.ConsolidationApproved(fmt.Sprintf("saves $%.4f per hour, evicts %d pods: score %.2f", step.SavingHourly, step.Evictions, s.Value))
			if len(step.Remove) > 1 {
				l.onPool(s.Pool, event)
				continue
			}
			l.onNode(s.Node, step.Remove[0].Claim, event)
		}
	}
}

// reportBlocked says on each node that is not disrupted though there would be a reason
// why that is, and shows how many could be.
func (l *Loop) reportBlocked(snap *cluster.Snapshot, p *plan.Disruption) {
	for _, e := range p.Eligible {
		l.Metrics.VoluntaryDisruptionEligibleNodes.WithLabelValues(label(e.Reason)).Set(float64(e.Nodes))
	}
	at := make(map[string]*cluster.Node, len(snap.Nodes))
	for i := range snap.Nodes {
		at[snap.Nodes[i].Name] = &snap.Nodes[i]
	}
	for _, why := range p.Blocked {
		n := at[why.Subject]
		if n == nil {
			continue
		}
		switch why.Reason {
		case verdict.NodeBlocked, verdict.NoReplacement, verdict.PoolPaused:
			l.onNode(n.Name, n.Claim, observe.DisruptionBlocked(why.Detail))
		case verdict.Unconsolidatable, verdict.HeldByBuffer:
			l.onNode(n.Name, n.Claim, observe.Unconsolidatable(why.Detail))
		case verdict.RepairBlocked:
			l.onNode(n.Name, n.Claim, observe.NodeRepairBlocked(why.Detail))
			l.onPool(n.Pool, observe.NodeRepairBlocked(why.Detail))
		case verdict.BudgetExhausted:
			l.onPool(n.Pool, observe.PoolDisruptionBlocked(why.Detail))
		default: // it only has to wait
		}
	}
}

// reportAnnotations says on the pods of nodes that may be disrupted what their do-not-disrupt
// annotations mean: one that cannot be read is better known before the node is drained.
func (l *Loop) reportAnnotations(snap *cluster.Snapshot) {
	if snap.At.Before(l.annotationsAt.Add(annotationsEvery)) {
		return
	}
	l.annotationsAt = snap.At
	nodes := map[string]bool{}
	for i := range snap.Nodes {
		if n := &snap.Nodes[i]; n.Claim != "" && n.Initialized && !n.Deleting {
			nodes[n.Name] = true
		}
	}
	for _, key := range []string{karpenterv1.DoNotDisruptAnnotationKey, karpenterv1.DoNotEvictAnnotationKey} {
		for _, pod := range l.Mirror.PodsWith(key, nodes) {
			if e, is := observe.DoNotDisrupt(pod, snap.At); is {
				l.event(pod, e)
			}
		}
	}
}

// event writes an event that is about the decision.
func (l *Loop) event(obj runtime.Object, e observe.Event) {
	e.Decision = l.decision
	l.Events.Event(obj, e)
}

// log writes lines that are about the decision.
func (l *Loop) log() *slog.Logger { return observe.OfDecision(l.Log, l.decision) }

// onNode writes an event on a Node and on its claim.
func (l *Loop) onNode(node, claim string, e observe.Event) {
	if n, ok := l.Mirror.NodeObject(node); ok {
		l.event(n, e)
	}
	if nc, ok := l.Mirror.ClaimObject(claim); ok {
		l.event(nc, e)
	}
}

func (l *Loop) onPool(pool string, e observe.Event) {
	if np, ok := l.Mirror.PoolObject(pool); ok {
		l.event(np, e)
	}
}

// terminationMode returns the label termination_mode of a removal: by the bound of its own, or else by
// the claim's terminationGracePeriod.
func terminationMode(r plan.Removal, nc *karpenterv1.NodeClaim) string {
	switch {
	case r.Bound.IsSet:
		return observe.TerminationMode(&r.Bound.Within)
	case nc.Spec.TerminationGracePeriod == nil:
		return observe.TerminationMode(nil)
	default:
		return observe.TerminationMode(&nc.Spec.TerminationGracePeriod.Duration)
	}
}
