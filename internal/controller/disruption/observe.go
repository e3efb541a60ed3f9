package disruption

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/decision/record"
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
	observed := p.Outline()
	if observed == l.observed {
		return
	}
	l.observed = observed
	id := l.Journal.Identify(d)
	l.decision = id.String()
	d.Error = notCarriedOut
	l.Journal.Add(d, id)
	for i := range p.Commands {
		s := &p.Commands[i]
		l.log().Info("would disrupt nodes", "reason", label(s.Reason), "action", decisionOf(s), "command", s.Outline(), "pods", s.Evictions, "saving_hourly", s.SavingHourly)
	}
	for i := range p.Reboots {
		l.log().Info("would reboot node", "node", p.Reboots[i].Node, "condition", p.Reboots[i].Condition)
	}
}
