package provisioning

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

// reportGivenUp reports decisions that were given up, and of one that took long.
func (l *Loop) reportGivenUp(snap *cluster.Snapshot, p *plan.Plan, took time.Duration) {
	if took > slow {
		l.Metrics.DecisionsSlow.WithLabelValues(string(record.Provisioning)).Inc()
		l.log().Warn("a decision took long", "pods", len(snap.Pending), "took", took, "effort", p.Effort)
	}
	l.Metrics.GaveUp(string(record.Provisioning), p.GivenUp)
	if len(p.GivenUp) == 0 {
		return
	}
	left := map[string]int{}
	for _, r := range p.Refusals {
		if r.Why.Reason == verdict.TooMuchEffort || r.Why.Reason == verdict.DecisionFailed {
			left[r.Pod.Namespace]++
		}
	}
	l.log().Error("abandoned a decision and repeated it without some pods", "causes", slices.Compact(slices.Clone(p.GivenUp)),
		"times", len(p.GivenUp), "pods", len(snap.Pending), "left_out_by_namespace", left, "took", took)
}

func (l *Loop) report(snap *cluster.Snapshot, p *plan.Plan, launched []apply.Launched, took time.Duration) {
	l.Metrics.ObservePlan(took, l.decision)
	l.Metrics.SchedulerSchedulingDurationSeconds.WithLabelValues(controllerName).Observe(took.Seconds())
	l.Metrics.SchedulerUnschedulablePodsCount.WithLabelValues(controllerName).Set(float64(len(p.Refusals)))
	l.reportZones(snap)
	l.Metrics.ClusterStateNodeCount.Set(float64(len(snap.Nodes)))
	for i := range snap.Pending {
		if snap.Pending[i].Planned == "" {
			l.Metrics.PodsSchedulingDecisionDurationSeconds.Observe(snap.At.Sub(snap.Pending[i].Created).Seconds())
		}
	}
	if len(p.Launches) > 0 {
		l.Metrics.PlanPriceHourlyDollars.Set(p.PriceHourly())
		l.Metrics.PlanBoundHourlyDollars.Set(p.BoundHourly)
	}
	if len(launched) > 0 {
		observe.Logged(l.log(), observe.LogFoundPods, "Pods", podNames(snap.Pending), "duration", took)
		observe.Logged(l.log(), observe.LogComputed, "nodeclaims", len(launched), "pods", len(snap.Pending), "placed", len(p.Assignments),
			"refused", len(p.Refusals), "price_hourly", p.PriceHourly(), "bound_hourly", p.BoundHourly, "took", took)
	}
	l.reportLaunches(launched)
	for _, placed := range p.Assignments {
		node := placed.Node
		if node == placed.Claim {
			node = "" // the Node is still to come
		}
		l.nominate(placed.Pod, placed.Claim, node)
	}
	l.reportRefusals(p)
	for _, idle := range p.Idle {
		if np, ok := l.Mirror.PoolObject(idle.Subject); ok {
			l.event(np, observe.NoCompatibleInstanceTypes(idle.Detail))
		}
	}
}

// reportNone reports that no pod asks for a node.
func (l *Loop) reportNone() {
	l.Metrics.SchedulerUnschedulablePodsCount.WithLabelValues(controllerName).Set(0)
	l.Metrics.SchedulerPendingPodsByZone.Reset()
	l.Metrics.QuarantinedPods.Set(0)
	l.reported = ""
}

func (l *Loop) reportLaunches(launched []apply.Launched) {
	for _, done := range launched {
		l.reportLaunch(done)
	}
}

func (l *Loop) reportLaunch(done apply.Launched) {
	launch := done.Launch
	l.Metrics.NodeClaimsCreated.WithLabelValues(observe.ReasonProvisioned, launch.Pool, strconv.FormatBool(launch.MinValuesRelaxed)).Inc()
	observe.Logged(l.log(), observe.LogCreated, observe.Created(done.Claim.Name, launch)...)
	for _, pod := range launch.Pods {
		l.nominate(pod, done.Claim.Name, "")
	}
}

// podNames names the first few pods.
func podNames(pods []cluster.Pod) string {
	names := make([]string, 0, len(pods))
	for i := range pods {
		names = append(names, pods[i].String())
	}
	return observe.FirstAnd(names)
}

func (l *Loop) nominate(ref cluster.PodRef, claim, node string) {
	if pod, ok := l.Mirror.PodObject(ref); ok && pod.Spec.NodeName == "" {
		l.event(pod, observe.Nominated(claim, node))
	}
}

// reportRefusals writes an event on each refused pod and one log line for each reason that
// the last pass did not have.
func (l *Loop) reportRefusals(p *plan.Plan) {
	counts, order, ignored := map[string]int{}, []string{}, 0
	for _, r := range p.Refusals {
		if r.Why.Reason == verdict.PodError {
			ignored++
		}
		why := r.Why.String()
		if counts[why]++; counts[why] == 1 {
			order = append(order, why)
			l.Metrics.Refusals.WithLabelValues(string(r.Why.Reason)).Inc()
		}
		if pod, ok := l.Mirror.PodObject(r.Pod); ok && pod.Spec.NodeName == "" {
			l.event(pod, observe.FailedScheduling(why))
		}
	}
	l.Metrics.SchedulerIgnoredPodsCount.Set(float64(ignored))
	if reported := fmt.Sprint(order); reported != l.reported {
		l.reported = reported
		for _, why := range order {
			l.log().Info("refused pods", "pods", counts[why], "reason", why)
		}
	}
}

// reportZones says how many pods are pending for each zone.
func (l *Loop) reportZones(snap *cluster.Snapshot) {
	l.Metrics.SchedulerPendingPodsByZone.Reset()
	for zone, pods := range pendingByZone(snap) {
		l.Metrics.SchedulerPendingPodsByZone.WithLabelValues(controllerName, zone).Set(float64(pods))
	}
}
