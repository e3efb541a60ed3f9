package demo

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// lookEvery is how often the stage looks, statusEvery how often at most it says so.
	lookEvery   = 100 * time.Millisecond
	statusEvery = 500 * time.Millisecond
	// silenceMost is how long the story may say nothing while it waits.
	silenceMost = 10 * time.Second
	// tookUnit is how exactly the time of a decision is told.
	tookUnit = 100 * time.Microsecond
)

// stage is where the story is played, and what has been told of it.
type stage struct {
	opts   *Options
	tell   *teller
	client client.Client
	board  *board
	heard  *news

	status   string
	statusAt time.Duration
	// planned are the claims that were decided and whose machines have not been told.
	planned []item
}

// await looks and tells until holds is true. The error says what did not happen in time.
func (s *stage) await(ctx context.Context, what string, within time.Duration, holds func(*state) bool) error {
	over, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		now, err := s.board.look(over)
		if err != nil && over.Err() == nil {
			return err
		}
		if err == nil {
			held := holds(now)
			s.report(now, held)
			if held {
				return nil
			}
			if what != "" && s.tell.elapsed()-s.tell.last >= silenceMost {
				s.tell.line("wait", "until %s", what)
			}
		}
		select {
		case <-over.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("waited %s until %s; it is not so (%s)", within, what, s.status)
		case <-tick.C:
		}
	}
}

// report tells what was decided since the last look, and the state if it changed. A state
// that is soon replaced is left out, unless at the end of a wait.
func (s *stage) report(now *state, last bool) {
	for _, i := range s.heard.take() {
		s.tellItem(i)
	}
	s.tellMachines(now)
	if line := now.line(); line != s.status && (last || s.tell.elapsed()-s.statusAt >= statusEvery) {
		s.status, s.statusAt = line, s.tell.elapsed()
		s.tell.line("status", "%s", line)
	}
}

// phrases returns the kind of line for each message of the controller that is a decision.
func phrases() map[string]string {
	return map[string]string{
		"planned launches": "plan", "created claim": "launch", "refused pods": "refuse", "removed node": "remove",
	}
}

func (s *stage) tellItem(i item) {
	kind := phrases()[i.message]
	switch kind {
	case "plan":
		s.tell.line(kind, "%s", planLine(i))
	case "launch":
		s.planned = append(s.planned, i) // told when it is known what it turned out to be
	case "refuse":
		s.tell.line(kind, "%s: %s", count(i.number("pods"), "pod"), i.text("reason"))
	case "remove":
		s.tell.line(kind, "%s: %s, quiet for %s", i.text("node"), i.text("reason"), i.text("quiet_for"))
	default:
		s.tell.line("error", "%s", errorLine(i))
	}
}

// planLine says what becomes of the pods that a plan is about.
func planLine(i item) string {
	pods, placed, refused := i.number("pods"), i.number("placed"), i.number("refused")
	parts := []string{fmt.Sprintf("%d to %s for $%.2f per hour", pods-placed-refused, count(i.number("launches"), "new machine"), i.price("price_hourly"))}
	if placed > 0 {
		parts = append(parts, fmt.Sprintf("%d to machines there are", placed))
	}
	if refused > 0 {
		parts = append(parts, fmt.Sprintf("%d refused", refused))
	}
	return fmt.Sprintf("%s: %s; decided in %s", count(pods, "pod"), strings.Join(parts, ", "), i.duration("took").Round(tookUnit))
}

func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func errorLine(i item) string {
	if v, ok := i.fields["error"]; ok && i.level >= slog.LevelError {
		return i.message + ": " + v.String()
	}
	return i.message
}

// tellMachines tells of the launches whose machines are known by now.
func (s *stage) tellMachines(now *state) {
	var still []item
	for _, i := range s.planned {
		m, ok := now.machine(i.text("claim"))
		if !ok {
			still = append(still, i)
			continue
		}
		price := m.priceHourly
		if price == 0 {
			price = i.price("price_hourly")
		}
		s.tell.line("launch", "%s: %s, %s, %s, $%.3f per hour: the cheapest of %d types of pool %s that hold %s",
			m.claim, m.instanceType, m.capacityType, m.zone, price, i.number("instance_types_total"), i.text("pool"), count(i.number("pods"), "pod"))
	}
	s.planned = still
}

func (s *state) machine(claim string) (machine, bool) {
	for _, m := range s.machines {
		if m.claim == claim && m.instanceType != "" {
			return m, true
		}
	}
	return machine{}, false
}

// heading starts an act.
func (s *stage) heading(format string, args ...any) {
	s.tell.plain("\n%s", strings.TrimSpace(fmt.Sprintf(format, args...)))
}
