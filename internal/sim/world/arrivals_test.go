package world

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/dovetail-sh/dovetail/internal/controller/provisioning"
)

var (
	arrivalSeeds = flag.Int("arrival-seeds", 0, "with how many seeds TestArrivals plays each pattern under each rule; 0: it is skipped")
	arrivalOnly  = flag.String("arrival-pattern", "", "the only pattern that TestArrivals plays; empty: all")
	arrivalRules = flag.String("arrival-rule", "", "the only rule that TestArrivals compares with the window; empty: all")
)

// rule is one way to decide what is launched before a batch window ends.
type rule struct {
	name string
	set  func(*provisioning.Loop)
}

// never is a premium at which no launch is certain.
const never = -1

// arrivalRuleSet are the rules of docs/design/early.md. The first waits for the window, as Karpenter does.
func arrivalRuleSet() []rule {
	early := func(idle time.Duration, premium float64, change func(*provisioning.Early)) func(*provisioning.Loop) {
		return func(l *provisioning.Loop) {
			e := *l.Early
			e.Idle, e.Premium = idle, premium
			if change != nil {
				change(&e)
			}
			l.Early = &e
		}
	}
	blind := func(e *provisioning.Early) { e.ComingCount, e.Patience = func() int { return 0 }, 0 }
	patience := func(d time.Duration) func(*provisioning.Early) {
		return func(e *provisioning.Early) { e.Patience = d }
	}
	const ms = time.Millisecond
	return []rule{
		{"window", func(l *provisioning.Loop) { l.Early = nil }},
		{"chosen", func(*provisioning.Loop) {}},
		{"every plan at once", early(ms, never, blind)},
		{"short idle", early(100*ms, never, blind)},
		{"complete", early(100*ms, never, patience(0))},
		{"complete, patient", early(100*ms, never, nil)},
		{"full", early(time.Hour, provisioning.EarlyPremium, nil)},
		{"premium 0", early(100*ms, 0, nil)},
		{"premium 5 %", early(100*ms, 0.05, nil)},
		{"premium 15 %", early(100*ms, 0.15, nil)},
		{"idle 50 ms", early(50*ms, provisioning.EarlyPremium, nil)},
		{"idle 200 ms", early(200*ms, provisioning.EarlyPremium, nil)},
		{"patience 0 s", early(100*ms, provisioning.EarlyPremium, patience(0))},
		{"patience 1 s", early(100*ms, provisioning.EarlyPremium, patience(time.Second))},
		{"patience 4 s", early(100*ms, provisioning.EarlyPremium, patience(4*time.Second))},
		{"patience 10 s", early(100*ms, provisioning.EarlyPremium, patience(10*time.Second))},
		{"patience 12 s", early(100*ms, provisioning.EarlyPremium, patience(12*time.Second))},
		{"patience 15 s", early(100*ms, provisioning.EarlyPremium, patience(15*time.Second))},
		{"patience 20 s", early(100*ms, provisioning.EarlyPremium, patience(20*time.Second))},
		{"patience 30 s", early(100*ms, provisioning.EarlyPremium, patience(30*time.Second))},
	}
}

// TestArrivals prints, for each pattern and rule, what pods wait for and what they cost: medians over
// seeds, prices as ratios to those of the window with the same seed.
func TestArrivals(t *testing.T) {
	if *arrivalSeeds == 0 {
		t.Skip("no -arrival-seeds")
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer func() { _ = out.Flush() }()
	_, _ = fmt.Fprintln(out, "pattern\trule\tp50\tp99\tprice\tlater price\tworst later\tlaunched\tgiven back")
	for _, pattern := range Patterns() {
		if *arrivalOnly != "" && string(pattern) != *arrivalOnly {
			continue
		}
		window := make([]Arrived, *arrivalSeeds)
		for i, r := range arrivalRuleSet() {
			if i > 0 && *arrivalRules != "" && r.name != *arrivalRules {
				continue
			}
			var got []Arrived
			for s := range *arrivalSeeds {
				result := Run(*from+uint64(s), arrivalsOptions(pattern, r.set))
				if result.Violation != "" {
					t.Errorf("%s, %s, seed %d: %s", pattern, r.name, *from+uint64(s), result.Violation)
				}
				got = append(got, result.Arrived)
			}
			if i == 0 {
				copy(window, got)
			}
			printArrived(out, pattern, r.name, got, window)
		}
	}
}

func arrivalsOptions(p Pattern, set func(*provisioning.Loop)) Options {
	return Options{Calm: ArrivalsLast, Arrivals: &Arrivals{Pattern: p, Rule: set}}
}

func printArrived(out io.Writer, p Pattern, rule string, got, window []Arrived) {
	var p50, p99 []time.Duration
	var price, later []float64
	launched, back := 0, 0
	for i := range got {
		w := slices.Sorted(slices.Values(got[i].Waits))
		if len(w) == 0 || got[i].PriceLater == 0 {
			_, _ = fmt.Fprintf(out, "%s\t%s\tseed %d did not come to its end\n", p, rule, i)
			continue
		}
		p50, p99 = append(p50, w[len(w)/2]), append(p99, w[len(w)*99/100])
		price, later = append(price, got[i].Price/window[i].Price), append(later, got[i].PriceLater/window[i].PriceLater)
		launched, back = launched+got[i].Launched, back+got[i].GivenBack
	}
	if len(later) == 0 {
		return
	}
	slices.Sort(later)
	_, _ = fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%.3f\t%.3f\t%.3f\t%d\t%d\n", p, rule, median(p50).Round(time.Millisecond), median(p99).Round(time.Millisecond),
		median(price), median(later), later[len(later)-1], launched, back)
}

func median[T float64 | time.Duration](of []T) T {
	slices.Sort(of)
	return of[len(of)/2]
}

// dearerMost is how much more what runs in the end may cost than with the window, on average over a few seeds.
const dearerMost = 1.015

// arrivalMutants are bugs in what is launched before a batch window ends, each with a pattern that shows it.
var arrivalMutants = []struct {
	name    string
	pattern Pattern
	set     func(*provisioning.Early)
}{
	{"every launch is certain", LargeApp, func(e *provisioning.Early) { e.Premium = 1e9 }},
	{"owners are not asked", SlowApp, func(e *provisioning.Early) { e.ComingCount, e.Patience = func() int { return 0 }, 0 }},
	{"nobody is patient", CronStorm, func(e *provisioning.Early) { e.Patience = 0 }},
	{"no node has yet to join", CronStorm, func(e *provisioning.Early) { e.JoiningCount = func() int { return 0 } }},
	{"no window is complete", OnePod, func(e *provisioning.Early) { e.Idle = time.Hour }},
	{"no launch is certain", LargeApp, func(e *provisioning.Early) { e.Premium = never }},
}

// TestArrivalsAreServedEarly: pods of these patterns wait less than with the window, and what runs in the end
// costs about the same. Each bug is found by that.
func TestArrivalsAreServedEarly(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long")
	}
	for _, m := range arrivalMutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			window := arrived(t, m.pattern, func(l *provisioning.Loop) { l.Early = nil })
			if why := worse(window, arrived(t, m.pattern, nil)); why != "" {
				t.Errorf("%s, without a bug: %s", m.pattern, why)
			}
			why := worse(window, arrived(t, m.pattern, func(l *provisioning.Loop) {
				e := *l.Early
				m.set(&e)
				l.Early = &e
			}))
			if why == "" {
				t.Error("the bug is not found")
			}
			t.Log(why)
		})
	}
}

// arrived plays a pattern with a few seeds.
func arrived(t *testing.T, p Pattern, set func(*provisioning.Loop)) (got []Arrived) {
	t.Helper()
	for s := range uint64(3) {
		r := Run(s+1, arrivalsOptions(p, set))
		if r.Violation != "" || len(r.Arrived.Waits) == 0 || r.Arrived.PriceLater == 0 {
			t.Fatalf("%s, seed %d: %s, %d pods", p, s+1, r.Violation, len(r.Arrived.Waits))
		}
		got = append(got, r.Arrived)
	}
	return got
}

// worse says in what arrivals were served worse than with the window; empty: in nothing.
func worse(window, got []Arrived) string {
	price, waited, before := 0.0, time.Duration(0), time.Duration(0)
	for i := range got {
		price += got[i].Price / window[i].Price / float64(len(got))
		for _, w := range got[i].Waits {
			waited += w / time.Duration(len(got[i].Waits))
		}
		for _, w := range window[i].Waits {
			before += w / time.Duration(len(window[i].Waits))
		}
	}
	switch {
	case price > dearerMost:
		return fmt.Sprintf("it costs %.3f times as much", price)
	case waited > before/2:
		return fmt.Sprintf("pods wait %s, and %s for the window", waited, before)
	default:
		return ""
	}
}
