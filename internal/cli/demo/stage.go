package demo

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"text/tabwriter"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// observeEvery is how often the stage looks, statusEvery how often at most it says so.
	observeEvery = 100 * time.Millisecond
	statusEvery  = 500 * time.Millisecond
	// billEvery is how often the bill is shown when nothing else changes.
	billEvery = 10 * time.Second
	// silenceMost is how long the story may say nothing while it waits.
	silenceMost = 10 * time.Second
	// tookUnit is how exactly the time of a decision is shown.
	tookUnit = 100 * time.Microsecond
	// tableGap is how many blanks are between columns.
	tableGap = 3
)

// stage is where the story is played, and what has been reported of it.
type stage struct {
	opts     *Options
	narrator *narrator
	client   client.Client
	board    *board
	events   *feed
	story    story
	// account is who is billed for the nodes; nil with kwok.
	account *account

	status   string
	statusAt time.Duration
	// acts is how many have begun.
	acts int
	// planned are the claims that were decided and whose nodes have not been reported.
	planned []planned
}

// planned is a claim, and why it is made.
type planned struct {
	claim, why  string
	priceHourly float64
}

// await observes the cluster and reports until holds is true. The error says what did not happen in time.
func (s *stage) await(ctx context.Context, what string, within time.Duration, holds func(*state) bool) error {
	over, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(observeEvery)
	defer tick.Stop()
	for {
		now, err := s.board.observe(over)
		if err != nil && over.Err() == nil {
			return err
		}
		if err == nil {
			held := holds(now)
			s.report(now, held)
			if held {
				return nil
			}
			if what != "" && s.narrator.elapsed()-s.narrator.last >= silenceMost {
				s.narrator.line("wait", "until %s", what)
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

// report writes what was decided since the last call, and the state if it changed. A state
// that is soon replaced is left out, unless at the end of a wait.
func (s *stage) report(now *state, last bool) {
	for _, i := range s.events.take() {
		s.reportItem(i)
	}
	s.reportNodes(now)
	since := s.narrator.elapsed() - s.statusAt
	if line := now.line(); line != s.status && (last || since >= statusEvery) || s.account != nil && since >= billEvery {
		s.status, s.statusAt = line, s.narrator.elapsed()
		s.narrator.line("status", "%s", line+now.bill())
	}
}

func (s *stage) reportItem(i item) {
	kind := phrases()[i.message]
	switch kind {
	case "plan":
		s.narrator.line(kind, "%s", planLine(i))
	case "launch":
		// Reported when it is known what it turned out to be.
		s.planned = append(s.planned, planned{i.text("claim"), fmt.Sprintf("the cheapest of %d types of pool %s that hold %s",
			i.number("instance_types_total"), i.text("pool"), count(i.number("pods"), "pod")), i.price("price_hourly")})
	case "refuse":
		s.narrator.line(kind, "%s: %s", count(i.number("pods"), "pod"), i.text("reason"))
	case "remove":
		s.narrator.line(kind, "%s", removeLine(i))
	case "notice":
		s.narrator.line(kind, "%s will be taken away: it is to be replaced, and drained from %s on at the latest", i.text("claim"), i.fields["by"].Time().Local().Format(time.TimeOnly))
	case "replace":
		s.reportStep(i)
	default:
		s.narrator.line("error", "%s", errorLine(i))
	}
}

// reportStep reports nodes that are replaced; that nodes only leave is reported when they do.
func (s *stage) reportStep(i item) {
	nodes, claims := strings.Join(i.names("nodes"), ", "), i.names("replacement-nodes")
	if len(claims) == 0 {
		return
	}
	s.narrator.line("replace", "%s (%s) by %s", nodes, i.text("reason"), count(int64(len(claims)), "new node"))
	for _, claim := range claims {
		s.planned = append(s.planned, planned{claim: claim, why: "in place of " + nodes})
	}
}

// removeLine says why a node goes.
func removeLine(i item) string {
	line := i.text("node") + ": " + i.text("reason")
	if idle := i.duration("quiet_for"); idle > 0 {
		line += ", no pod event for " + idle.String()
	}
	return line
}

// planLine says what becomes of the pods that a plan is about.
func planLine(i item) string {
	pods, placed, refused := i.number("pods"), i.number("placed"), i.number("refused")
	parts := []string{fmt.Sprintf("%d to %s for $%.2f per hour", pods-placed-refused, count(i.number("nodeclaims"), "new node"), i.price("price_hourly"))}
	if placed > 0 {
		parts = append(parts, fmt.Sprintf("%d to existing nodes", placed))
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

// reportNodes reports the launches whose nodes are known by now.
func (s *stage) reportNodes(now *state) {
	var still []planned
	for _, p := range s.planned {
		m, ok := now.instance(p.claim)
		if !ok {
			still = append(still, p)
			continue
		}
		s.narrator.line("launch", "%s: %s, %s, %s, $%.3f per hour: %s",
			m.claim, m.instanceType, m.capacityType, m.zone, cmp.Or(m.priceHourly, p.priceHourly), p.why)
	}
	s.planned = still
}

// act starts an act; they are numbered.
func (s *stage) act(format string, args ...any) {
	s.acts++
	s.narrator.plain("\n%d. %s", s.acts, fmt.Sprintf(format, args...))
}

// table shows nodes, one a line.
func table(instances []instance) []string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, tableGap, ' ', 0)
	fmt.Fprintln(w, "NODECLAIM\tTYPE\tARCH\tCAPACITY\tZONE\tPODS\tPER HOUR")
	for i := range instances {
		m := &instances[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%4d\t$%.4f\n", m.claim, m.instanceType, m.arch, m.capacityType, m.zone, m.pods, m.priceHourly)
	}
	_ = w.Flush() // a Builder takes all
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

// story is what is played on a cloud.
type story struct {
	// examples holds the manifests, and says where they are.
	examples fs.FS
	from     string
	// base are the kinds that are applied before the story begins.
	base []string
	acts []act
}

type act func(*stage, context.Context) error
