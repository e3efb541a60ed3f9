package disrupt_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestStories runs the stories in testdata. "cluster" describes a cluster; "propose" prints
// what should go and what stays, with pools in cooldown for a minute, or with spot-to-spot;
// With terminate-first nodes may go before others are there, with reboots=n1 nodes may be rebooted,
// but not n1 again. "place" prints where pending pods go beside commands in progress, "decide" where
// chunks of capacity buffers do.
//
// "run" decides for some time, as often as the memory asks for it, with what it remembers
// from the "run" before, and prints the decisions by the seconds at which they were made. Nothing
// is carried out: only "cluster" changes the cluster, whose times are those of the story's
// beginning. "events" reports an event before each decision, "took" is how long a search of
// all nodes takes by the clock. "forget" begins anew.
func TestStories(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &telling{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "cluster":
				var err error
				if s.snap, err = story.Parse(d.Input); err != nil {
					d.Fatalf(t, "%v", err)
				}
				return ""
			case "propose":
				return s.propose(t, d)
			case "place":
				p := pack.Solve(disrupt.PreferOthers(disrupt.Reserve(s.snap)), pack.Options{})
				return story.Print(&p)
			case "decide":
				p := pack.Decide(disrupt.Reserve(s.snap), pack.Options{})
				return story.Print(&p)
			case "run":
				return s.run(t, d)
			case "forget":
				s.memory, s.passed, s.events = disrupt.Memory{}, 0, disrupt.Events{}
				return ""
			default:
				d.Fatalf(t, "no such command: %s", d.Cmd)
				return ""
			}
		})
	})
}

// options are those of the stories: unhealthy nodes are repaired.
func options() disrupt.Options {
	return disrupt.Options{Grace: 2 * time.Second, Repair: disrupt.Repair{On: true}}
}

// telling is a story under way.
type telling struct {
	snap   *cluster.Snapshot
	memory disrupt.Memory
	passed time.Duration
	events disrupt.Events
}

func (s *telling) propose(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	opts, memory := options(), disrupt.Memory{PoolCooldowns: map[string]disrupt.Cooldown{}}
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "spot-to-spot":
			opts.Terms.SpotToSpot = true
		case "terminate-first":
			opts.TerminateFirst = disrupt.TerminateFirst{Drifted: true, Unhealthy: true}
		case "reboots":
			opts.Repair.CanReboot, opts.Repair.Escalated = true, arg.Vals
			continue
		}
		for _, pool := range arg.Vals {
			memory.PoolCooldowns[pool] = disrupt.Cooldown{Wait: time.Minute, Until: s.snap.At.Add(time.Minute)}
		}
	}
	p, _ := disrupt.Propose(s.snap, memory, opts)
	checkUnderWay(t, d.Pos, s.snap, &p)
	return story.PrintDisruption(&p)
}

func (s *telling) run(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	var lasts, took time.Duration
	for _, arg := range d.CmdArgs {
		for key, to := range map[string]*time.Duration{"for": &lasts, "took": &took} {
			var err error
			if arg.Key == key {
				if *to, err = time.ParseDuration(arg.Vals[0]); err != nil {
					d.Fatalf(t, "%v", err)
				}
			}
		}
	}
	var times, lines []string
	was := ""
	say := func(at, what string) {
		if was != "" && what != was {
			lines, times = append(lines, strings.Join(times, " ")+" "+was), nil
		}
		was, times = what, append(times, at)
	}
	for end := s.passed + lasts; s.passed < end; {
		if d.HasArg("events") {
			s.events.Reported++
		}
		snap := *s.snap
		snap.At = story.Now().Add(s.passed)
		if !s.memory.IsIdle(s.events, snap.At) {
			say(fmt.Sprint(s.passed.Seconds()), s.decide(&snap, took))
		}
		s.passed += s.memory.Pause(snap.At)
	}
	say("", "")
	return strings.Join(lines, "\n") + "\n"
}

// decide makes one decision, and says what came of it.
func (s *telling) decide(snap *cluster.Snapshot, took time.Duration) string {
	opts := options()
	opts.Events = s.events
	p, next := disrupt.Propose(snap, s.memory, opts)
	if next.Search != disrupt.FullSearch {
		took /= 10
	}
	next.SearchTook(snap.At, took)
	s.memory = next
	says := []string{string(next.Search) + " search"}
	if next.Search == disrupt.NoSearch {
		says[0] = "no search"
	}
	for i := range p.Commands {
		says = append(says, "begins "+p.Commands[i].Reason+" of "+p.Commands[i].Remove[0].Node)
	}
	for i := range p.Undos {
		says = append(says, "undoes "+p.Undos[i].Command)
	}
	for kind, cooldowns := range map[string]map[string]disrupt.Cooldown{"pool": next.PoolCooldowns, "node": next.NodeCooldowns} {
		for _, name := range slices.Sorted(maps.Keys(cooldowns)) {
			if c := cooldowns[name]; c.Until.Add(-c.Wait).Equal(snap.At) {
				says = append(says, fmt.Sprintf("%s %s cools down for %s", kind, name, c.Wait))
			}
		}
	}
	slices.Sort(says[1:])
	for _, pool := range slices.Sorted(maps.Keys(next.BudgetWaits)) {
		says = append(says, "waits for budgets of "+pool)
	}
	return strings.Join(says, ", ")
}

// checkUnderWay: a decision about commands in progress only does with them what any other does.
func checkUnderWay(t *testing.T, pos string, snap *cluster.Snapshot, whole *plan.Disruption) {
	t.Helper()
	got, _ := disrupt.Propose(snap, disrupt.Memory{Busy: true, DecidedAt: snap.At}, options())
	want := plan.Disruption{At: whole.At, Undos: whole.Undos, Marks: whole.Marks, Unmarks: whole.Unmarks, Removals: whole.Removals}
	if diff := cmp.Diff(story.PrintDisruption(&want), story.PrintDisruption(&got)); diff != "" {
		t.Errorf("%s: of steps under way (-any look, +one for them only):\n%s", pos, diff)
	}
}
