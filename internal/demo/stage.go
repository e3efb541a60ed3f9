package demo

import (
	"context"
	"errors"
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
		}
		select {
		case <-over.Done():
			if ctx.Err() != nil {
				return interrupted(ctx)
			}
			return fmt.Errorf("%s: not within %s (%s)", what, within, s.status)
		case <-tick.C:
		}
	}
}

// interrupted returns why the story ends early.
func interrupted(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return errors.New("interrupted")
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
		"planned launches": "plan", "created claim": "launch", "refused pods": "refuse", "removed empty node": "remove",
	}
}

func (s *stage) tellItem(i item) {
	kind := phrases()[i.message]
	switch kind {
	case "plan":
		s.tell.line(kind, "%d pods: %d to machines there are, the others to %d new ones for $%.2f per hour; decided in %s",
			i.number("pods"), i.number("placed"), i.number("launches"), i.price("price_hourly"), i.text("took"))
	case "launch":
		s.planned = append(s.planned, i) // told when it is known what it turned out to be
	case "refuse":
		s.tell.line(kind, "%d pods: %s", i.number("pods"), i.text("reason"))
	case "remove":
		s.tell.line(kind, "%s: %s, quiet for %s", i.text("node"), i.text("reason"), i.text("quiet_for"))
	default:
		s.tell.line("error", "%s", errorLine(i))
	}
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
		s.tell.line("launch", "%s: %s, %s, %s, $%.3f per hour: the cheapest of %d types of pool %s that hold its %d pods",
			m.claim, m.instanceType, m.capacityType, m.zone, price, i.number("instance_types_total"), i.text("pool"), i.number("pods"))
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
