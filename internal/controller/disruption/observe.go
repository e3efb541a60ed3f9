package disruption

import (
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

const (
	// observeEvery is the time between decisions that are not carried out.
	observeEvery = 10 * time.Second
	// notCarriedOut is what the journal says of each.
	notCarriedOut = "observe mode: decisions are not carried out"
)

// isObserved reports whether it is too early for another decision that is not carried out: it would be the
// last one again.
func (l *Loop) isObserved() bool {
	return l.Observe && !l.observedAt.IsZero() && l.Now().Sub(l.observedAt) < observeEvery
}

// observe logs and keeps a decision that is not carried out, unless it is that of the last time.
func (l *Loop) observe(d *record.Decision) {
	l.observedAt = l.Now()
	p := &d.Disruption
	saving := 0.0
	for i := range p.Commands {
		saving += p.Commands[i].SavingHourly
	}
	l.Metrics.ObservedSavingHourlyDollars.WithLabelValues().Set(saving)
	observed := p.Outline()
	if observed == l.observed {
		return
	}
	before := strings.Split(l.observed, "\n")
	l.observed = observed
	id := l.Journal.Identify(d)
	l.decision = id.String()
	d.Error = notCarriedOut
	l.Journal.Add(d, id)
	for i := range p.Commands {
		s := &p.Commands[i]
		if !slices.Contains(before, s.Outline()) {
			l.countObserved(s)
		}
		l.log().Info("would disrupt nodes", "reason", label(s.Reason), "action", decisionOf(s), "command", s.Outline(), "pods", s.Evictions, "saving_hourly", s.SavingHourly)
	}
	for i := range p.Reboots {
		r := &p.Reboots[i]
		if !slices.Contains(before, r.Outline()) {
			reason := label(disrupt.Unhealthy)
			l.Metrics.ObservedDisruptionDecisions.WithLabelValues(observe.DecisionReboot, reason, kindOf(disrupt.Unhealthy, 1)).Inc()
			l.Metrics.ObservedNodeClaimsDisrupted.WithLabelValues(reason, r.Pool).Inc()
		}
		l.log().Info("would reboot node", "node", r.Node, "condition", r.Condition)
	}
}

// countObserved counts a command that is not carried out.
func (l *Loop) countObserved(s *plan.Command) {
	reason := label(s.Reason)
	l.Metrics.ObservedDisruptionDecisions.WithLabelValues(decisionOf(s), reason, kindOf(s.Reason, len(s.Remove))).Inc()
	for _, r := range s.Remove {
		l.Metrics.ObservedNodeClaimsDisrupted.WithLabelValues(reason, r.Pool).Inc()
	}
	for i := range s.Launch {
		l.Metrics.ObservedNodeClaimsCreated.WithLabelValues(reason, s.Launch[i].Pool).Inc()
	}
}
