package provisioning

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

const (
	// observeEvery is how often pods that are still pending are decided about again when nothing is carried out.
	observeEvery = time.Minute
	// notCarriedOut is what the journal says of each decision then.
	notCarriedOut = "observe mode: decisions are not carried out"
	// loggedMost bounds the launches in a log line.
	loggedMost = 20
)

// observe logs and keeps a decision that is not carried out, unless all of it was decided before. others are pods that
// it is not about and that are refused; it returns them with those that it refuses.
func (l *Loop) observe(d *record.Decision, others []plan.Refusal) []plan.Refusal {
	p := &d.Plan
	refused := append(slices.Clip(p.Refusals), others...)
	if l.differs(p) {
		id := l.identify(d)
		if !id.IsZero() {
			d.Claims, d.Error = make([]string, len(p.Launches)), notCarriedOut
			l.Journal.Add(d, id)
		}
		if len(p.Launches) > 0 {
			var launches []string
			for i := range p.Launches[:min(len(p.Launches), loggedMost)] {
				launches = append(launches, p.Launches[i].Outline())
			}
			l.log().Info("would launch nodes", "nodes", len(p.Launches), "pods", len(d.Snapshot.Pending), "placed", len(p.Assignments), "refused", len(p.Refusals),
				"price_hourly", p.PriceHourly(), "bound_hourly", p.BoundHourly, "launches", launches, "took", d.Took)
		}
	}
	l.reportGivenUp(d.Snapshot, p, d.Took)
	shown := *p
	shown.Refusals = refused
	l.report(d.Snapshot, &shown, nil, d.Took)
	return refused
}

// differs reports whether a decision differs for any pod from the last one about that pod, and remembers it.
// Pods that are quarantined are decided about apart, so a decision and the next one are about different pods.
// NodeClaims that would be created by it, and would not have been by those before, are counted.
func (l *Loop) differs(p *plan.Plan) bool {
	byPod, differs := p.ByPod(), false
	if l.observed == nil {
		l.observed = map[cluster.PodRef]string{}
	}
	for i := range p.Launches {
		launch := &p.Launches[i]
		of := cluster.PodRef{}
		if len(launch.Pods) > 0 {
			of = launch.Pods[0]
		}
		if l.observed[of] != byPod[of] {
			l.Metrics.ObservedNodeClaimsCreated.WithLabelValues(observe.ReasonProvisioned, launch.Pool).Inc()
		}
	}
	for pod, line := range byPod {
		differs = differs || l.observed[pod] != line
		l.observed[pod] = line
	}
	return differs
}

// forget drops what was decided about pods that are not pending any more.
func (l *Loop) forget(snap *cluster.Snapshot) {
	pending := make(map[cluster.PodRef]bool, len(snap.Pending))
	for i := range snap.Pending {
		pending[snap.Pending[i].PodRef] = true
	}
	maps.DeleteFunc(l.observed, func(pod cluster.PodRef, _ string) bool {
		return !pending[pod] && (pod != cluster.PodRef{} || len(snap.Buffers) == 0)
	})
}
