package provisioning

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
)

const (
	// observeEvery is how often pods that are still pending are decided about again when nothing is carried out.
	observeEvery = time.Minute
	// notCarriedOut is what the journal says of each decision then.
	notCarriedOut = "observe mode: decisions are not carried out"
	// loggedMost bounds the launches in a log line.
	loggedMost = 20
)

// observe logs and keeps a decision that is not carried out, unless it is that of the last time. others are pods that
// it is not about and that are refused; it returns them with those that it refuses.
func (l *Loop) observe(d *record.Decision, others []plan.Refusal) []plan.Refusal {
	p := &d.Plan
	refused := append(slices.Clip(p.Refusals), others...)
	if observed := p.Outline(); observed != l.observed {
		l.observed = observed
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
