package view_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/budget"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
	"github.com/dovetail-sh/dovetail/internal/view"
)

// stateOf returns what the loops would know of a snapshot after one decision each.
func stateOf(snap *cluster.Snapshot) *view.State {
	p := pack.Decide(snap, pack.Options{})
	d, next := disrupt.Propose(snap, disrupt.Memory{}, disrupt.Options{})
	s := &view.State{Snapshot: snap, Refusals: p.Refusals, Memory: next, Stays: map[string]view.Stay{}, Commands: d.Commands}
	s.Bound, _ = view.BoundOf(snap, &d, next.Search)
	for _, v := range d.Blocked {
		s.Stays[v.Subject] = view.Stay{Why: v, At: snap.At}
	}
	return s
}

// TestStories prints views of the clusters in testdata: "cluster" describes one, short=TYPE/ZONE/CAPACITY
// says where there was no capacity, opens=POOL:1h when the budgets of a pool change, observes that nothing is
// carried out; then each command is the name of
// a view, cost with by=.
func TestStories(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var s *view.State
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "cluster" {
				snap, err := story.Parse(d.Input)
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				s = stateOf(snap)
				remember(t, d, s)
				return ""
			}
			by, name := "", ""
			d.MaybeScanArgs(t, "by", &by)
			d.MaybeScanArgs(t, "name", &name)
			b, err := json.MarshalIndent(answer(s, d.Cmd, by, name), "", " ")
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			return string(b) + "\n"
		})
	})
}

// remember adds what a story says of the past and of schedules.
func remember(t *testing.T, d *datadriven.TestData, s *view.State) {
	var short, opens string
	d.MaybeScanArgs(t, "short", &short)
	if p := strings.Split(short, "/"); len(p) == 3 {
		place := catalog.Place{Type: p[0], Zone: p[1], CapacityType: p[2]}
		s.Shortages = []catalog.Shortage{{Place: place, Until: s.Snapshot.At.Add(3 * time.Minute), Risk: 0.2, Reported: s.Snapshot.At, Shorts: 1}}
	}
	s.Observes = d.HasArg("observes")
	d.MaybeScanArgs(t, "opens", &opens)
	if pool, in, ok := strings.Cut(opens, ":"); ok {
		after, err := time.ParseDuration(in)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		s.BudgetChanges = map[string][]time.Time{pool: {s.Snapshot.At.Add(after)}}
	}
}

func answer(s *view.State, name, by, subject string) any {
	switch name {
	case "overview":
		return view.OverviewOf(s)
	case "fleet":
		return view.FleetOf(s)
	case "pending":
		return view.PendingOf(s)
	case "pools":
		return view.PoolsOf(s)
	case "pool":
		v, _ := view.PoolOf(s, subject)
		return v
	case "blockers":
		return view.BlockersOf(s)
	case "offerings":
		return view.OfferingsOf(s)
	case "next":
		return view.NextOf(s)
	case "cost":
		by, _ := view.ParseBy(by)
		return view.CostOf(s, by)
	case "node":
		v, _ := view.NodeOf(s, subject)
		return v
	}
	return "no such view"
}

// any draws a cluster.
func anyState(t *rapid.T) *view.State {
	snap, err := story.Parse(story.Any(t))
	if err != nil {
		t.Skip(err)
	}
	return stateOf(snap)
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9*(1+math.Abs(a)+math.Abs(b)) }

// TestFiguresAreTheCores compares what views say of random clusters with what the core says.
func TestFiguresAreTheCores(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := anyState(t)
		prices, ledger := cluster.NewPrices(s.Snapshot), budget.Open(s.Snapshot)
		want, ours, pods := 0.0, 0, 0
		for i := range s.Snapshot.Nodes {
			if n := &s.Snapshot.Nodes[i]; n.Claim != "" {
				price, _ := prices.Of(n)
				want += price
				ours++
				for _, p := range n.Pods {
					pods += int(p.Count)
				}
			}
		}
		o := view.OverviewOf(s)
		if !near(o.Price.Hourly, want) || o.Nodes.Total != ours || o.Nodes.Ready+o.Nodes.Starting+o.Nodes.NotReady+o.Nodes.Terminating != ours || o.Usage.PodsRunning != pods {
			t.Fatalf("overview %+v; the nodes cost %g, are %d, run %d pods", o, want, ours, pods)
		}
		for _, by := range []string{view.ByNamespace, view.ByWorkload, view.ByLabel + "app"} {
			c := view.CostOf(s, by)
			sum, counted := c.IdleHourly, 0
			for _, row := range c.Rows {
				sum += row.Hourly
				counted += row.Pods
				if row.Hourly < 0 {
					t.Fatalf("%s costs %g", row.Name, row.Hourly)
				}
			}
			if !near(sum, want) || counted != pods || c.IdleHourly < 0 {
				t.Fatalf("by %s: rows and idle are %g, the nodes cost %g; %d pods of %d", by, sum, want, counted, pods)
			}
		}
		for _, p := range view.PoolsOf(s).Pools {
			for _, b := range p.Budgets {
				if allowed := ledger.Allowed(p.Name, b.Reason); b.Allowed != allowed && !(b.Allowed == -1 && allowed == math.MaxInt32) || b.Used != ledger.Used(p.Name, b.Reason) {
					t.Fatalf("budget %+v of %s", b, p.Name)
				}
			}
			room := disrupt.Room(s.Snapshot)[p.Name]
			for _, l := range p.Limits {
				if l.Limit-l.Used != room[l.Resource] {
					t.Fatalf("limit %+v of %s leaves %d", l, p.Name, room[l.Resource])
				}
			}
		}
	})
}

// TestEveryNodeAndPodHasAnAnswer holds that nothing is silent, and that every no has an end.
func TestEveryNodeAndPodHasAnAnswer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := anyState(t)
		total := 0
		for _, p := range view.FleetOf(s).Pools {
			for _, n := range p.Nodes {
				total++
				st := n.Status
				if st.State == "" || st.Text == "" {
					t.Fatalf("nothing is said of node %s: %+v", n.Name, st)
				}
				if st.Cause.Reason != "" && st.Until.IsZero() && st.When == "" {
					t.Fatalf("node %s has no end: %+v", n.Name, st)
				}
				pods := 0
				for _, g := range n.Groups {
					pods += g.Pods
				}
				if pods != n.Usage.PodsRunning {
					t.Fatalf("the groups of %s have %d pods, it has %d", n.Name, pods, n.Usage.PodsRunning)
				}
				if v, ok := view.NodeOf(s, n.Name); !ok || v.Node.Name != n.Name {
					t.Fatalf("node %s is not found", n.Name)
				}
			}
		}
		if total != len(s.Snapshot.Nodes) {
			t.Fatalf("%d nodes of %d", total, len(s.Snapshot.Nodes))
		}
		p := view.PendingOf(s)
		refused := 0
		for _, g := range p.Groups {
			refused += g.Pods
			if g.Ends == "" || g.Text == "" || len(g.Names) == 0 || len(g.Workloads) == 0 {
				t.Fatalf("group %+v", g)
			}
		}
		if refused != p.Refused || p.Refused+p.Planned+p.Undecided != p.Pods || p.Pods != len(s.Snapshot.Pending)+len(s.Snapshot.Excluded) {
			t.Fatalf("pending %+v", p)
		}
		for _, e := range view.NextOf(s).Entries {
			if e.Action == "" || e.Name == "" || !e.Now && e.At.IsZero() && e.When == "" {
				t.Fatalf("entry %+v", e)
			}
		}
	})
}

// TestWhatHoldsNodesIsWhatTheCoreSays compares blockers with the verdicts of a decision.
func TestWhatHoldsNodesIsWhatTheCoreSays(t *testing.T) {
	t.Parallel()
	held := 0
	rapid.Check(t, func(t *rapid.T) {
		s := anyState(t)
		d, _ := disrupt.Propose(s.Snapshot, disrupt.Memory{}, disrupt.Options{})
		holds := disrupt.NewHolds(s.Snapshot)
		for i := range s.Snapshot.Nodes {
			n := &s.Snapshot.Nodes[i]
			said := slices.IndexFunc(d.Blocked, func(v verdict.Verdict) bool {
				return v.Subject == n.Name && v.Reason == verdict.NodeBlocked && !strings.Contains(v.Detail, "meant for it")
			})
			if said < 0 {
				continue
			}
			held++
			if why := holds.Of(n).Why; why.String() != d.Blocked[said].String() {
				t.Fatalf("the core says %q, the view %q", d.Blocked[said], why)
			}
		}
		b := view.BlockersOf(s)
		nodes, sum := 0, 0.0
		for _, x := range b.Blockers {
			nodes += x.Nodes
			if !x.InUse {
				sum += x.Price.Hourly
			}
		}
		if !near(sum, b.HeldHourly) || b.HeldHourly > b.Price.Hourly+1e-9 || nodes > len(s.Snapshot.Nodes) {
			t.Fatalf("blockers %+v", b)
		}
	})
	if !testing.Short() && held == 0 { // -short tries a fifth as many
		t.Error("no random cluster has a blocked node")
	}
}

func TestABoundIsOnlyThatOfASettledCluster(t *testing.T) {
	t.Parallel()
	parse := func(more string) *cluster.Snapshot {
		snap, err := story.Parse("type four cpu=4 memory=8Gi price=0.20\npool general\nnode a pool=general type=four\nrunning web on=a cpu=1\n" + more)
		if err != nil {
			t.Fatal(err)
		}
		return snap
	}
	found := &plan.Disruption{FleetBoundHourly: 0.15, Blocked: []verdict.Verdict{verdict.Of(verdict.NodeBlocked, "a", "x")}}
	b, ok := view.BoundOf(parse(""), found, disrupt.FullSearch)
	if !ok || b.PriceHourly != 0.20 || b.NodesHeld != 1 || b.HeldHourly != 0.20 || !near(b.Gap(), 0.25) {
		t.Errorf("bound %+v", b)
	}
	if _, ok := view.BoundOf(parse(""), found, disrupt.ChangedSearch); ok {
		t.Error("a search of some nodes gives no bound for all")
	}
	for _, more := range []string{"pod w cpu=1", "node b pool=general type=four starting", "node b pool=general type=four deleting", "claim c pool=general types=four"} {
		if _, ok := view.BoundOf(parse(more), found, disrupt.FullSearch); ok {
			t.Errorf("with %q there is a bound", more)
		}
	}
}
