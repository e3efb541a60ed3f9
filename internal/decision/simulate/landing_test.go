package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/consolidate"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestWhatIsBegunIsFinished carries out what is proposed, as many steps at once as there are,
// until nothing is. When the replacements are there, the look before the nodes go finds a
// place for every pod, as the search did, however full that makes the others. (Of pods that
// are spread some may have to wait: a later step takes from a zone what an earlier one counts
// on.) Where budgets let few pods go at a time the plan is made anew many times, and steps
// buy for others that may never come: it comes to an end all the same, near what the first
// plan has promised, and no pod is evicted twice within ten minutes.
func TestWhatIsBegunIsFinished(t *testing.T) {
	t.Parallel()
	families := []family{
		{name: "on-demand", fill: 0.5},
		{name: "apart", fill: 0.5, apart: 0.4},
		{name: "held", fill: 0.4, held: 0.05, local: 0.1},
		{name: "guarded", fill: 0.5, spot: 0.5, guarded: 0.2, thin: 15},
	}
	if testkit.Raced || testing.Short() {
		families = families[:1]
	}
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			l := newLanding(f.generate(t, 40, 1).Snapshot(time.Unix(1e9, 0)))
			promised := consolidate.Search(l.snap, consolidate.Options{Terms: anySpot(), Pack: scenarioOptions()}).AfterHourly
			for idle := 0; idle < landingRest && !t.Failed(); {
				if idle++; l.round(t) {
					idle = 0
				}
				if l.rounds++; l.rounds == landingRounds {
					t.Fatalf("there is no end after %d rounds", l.rounds)
				}
			}
			t.Logf("%.3f $/h after %d steps in %d rounds, promised %.3f; %d evictions, %d of pods that were evicted before",
				l.price(), l.begun, l.rounds, promised, l.evictions, l.again)
			if l.begun == 0 || l.price() > 1.1*promised {
				t.Errorf("%.3f $/h after %d steps, %.3f promised", l.price(), l.begun, promised)
			}
		})
	}
}

const (
	// landingRounds bounds how often it is looked for more, every landingPause; nothing is
	// expected any more after landingRest times in vain, when moved pods may move again.
	landingRounds, landingPause, landingRest = 60, 2 * time.Minute, 6
)

// landing is a cluster in which steps are carried out, and pods go where they are meant to.
type landing struct {
	snap                  *cluster.Snapshot
	rounds, begun, bought int
	evictions, again      int
	try                   int               // that found most in the last round
	homes                 map[string]string // of pods of steps under way, by their UID
}

func newLanding(snap *cluster.Snapshot) *landing {
	pods := 0
	snap.Pools[0].Budgets = []cluster.Budget{{Nodes: 100, Percent: true, Active: true}}
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		n.Claim, n.Empty = n.Name, len(n.Residents) == 0
		for r := range n.Residents {
			pods++
			n.Residents[r].Name, n.Residents[r].UID = fmt.Sprintf("p%06d", pods), fmt.Sprint(pods)
		}
	}
	return &landing{snap: snap}
}

func (l *landing) node(name string) *cluster.Node {
	i := slices.IndexFunc(l.snap.Nodes, func(n cluster.Node) bool { return n.Name == name })
	return &l.snap.Nodes[i]
}

// round begins what is proposed, and has all its nodes go.
func (l *landing) round(t *testing.T) bool {
	t.Helper()
	opts := disrupt.Options{Settle: 2 * time.Second, Terms: anySpot(), Pack: scenarioOptions()}
	memory := disrupt.Memory{BestTry: l.try, AllTriesAt: l.snap.At}
	p, next := disrupt.Propose(l.snap, memory, opts)
	l.try = next.BestTry
	l.homes = map[string]string{}
	for i := range p.Steps {
		l.begin(&p.Steps[i])
	}
	began := l.snap.At
	l.snap.At = began.Add(3 * time.Second)
	q, _ := disrupt.Propose(l.snap, disrupt.Memory{Busy: true, DecidedAt: l.snap.At}, opts)
	for i := range q.Undos {
		t.Errorf("step %s of %d is taken back: %s", q.Undos[i].Step, len(p.Steps), q.Undos[i].Why)
	}
	l.remove(t, q.Removals)
	for i := range l.snap.Nodes {
		n := &l.snap.Nodes[i]
		if n.Replaces = ""; n.Marked != "" {
			t.Errorf("%s is still there", n.Name)
		}
	}
	l.snap.At = began.Add(landingPause)
	return len(p.Steps) > 0
}

// price returns what all nodes cost.
func (l *landing) price() (sum float64) {
	prices := cluster.NewPrices(l.snap)
	for i := range l.snap.Nodes {
		p, _ := prices.Of(&l.snap.Nodes[i])
		sum += p
	}
	return sum
}

// begin marks the nodes of a step, and has what it launches be there.
func (l *landing) begin(s *plan.Step) {
	l.begun++
	for _, m := range s.Moves {
		l.homes[m.Pod.UID] = m.Node
	}
	for i := range s.Launch {
		l.bought++
		name := fmt.Sprintf("was-%05d", l.bought)
		l.snap.Nodes = append(l.snap.Nodes, l.launched(name, &s.Launch[i]))
		for _, pod := range s.Launch[i].Pods {
			l.homes[pod.UID] = name
		}
	}
	for _, r := range s.Remove {
		n := l.node(r.Node)
		n.Marked, n.MarkedSince, n.Closed, n.Step, n.StepRemoves, n.StepLaunches = s.Reason, l.snap.At, true, s.ID, len(s.Remove), len(s.Launch)
		n.Taints = append(n.Taints, cluster.Taint{Key: "karpenter.sh/disrupted", Effect: cluster.NoSchedule})
		for i := range n.Residents {
			n.Residents[i].Home = l.homes[n.Residents[i].UID]
		}
	}
	slices.SortFunc(l.snap.Nodes, func(a, b cluster.Node) int { return cmp.Compare(a.Name, b.Name) })
}

// launched returns the node of the cheapest offering of a launch.
func (l *landing) launched(name string, launch *plan.Launch) (out cluster.Node) {
	cheapest := -1.0
	for _, t := range l.snap.Pools[0].Types {
		if !slices.Contains(launch.Types, t.Name) {
			continue
		}
		for i := range t.Offerings {
			o := &t.Offerings[i]
			offered := map[string]string{label.Zone: o.Zone, label.CapacityType: o.CapacityType}
			if _, conflict := label.OfLabels(offered).Conflict(launch.Requirements); conflict || cheapest >= 0 && o.PriceHourly >= cheapest {
				continue
			}
			cheapest = o.PriceHourly
			out = cluster.Node{
				Name: name, Claim: name, Pool: launch.Pool, Capacity: t.Capacity, Allocatable: t.Allocatable(), Used: quantity.List{},
				Initialised: true, Ready: true, Empty: true, Created: l.snap.At, QuietSince: l.snap.At, Labels: offered,
				Disruption: cluster.Disruption{Replaces: launch.Replaces},
			}
			out.Labels[label.InstanceType], out.Labels[label.NodePool], out.Labels[label.Hostname] = t.Name, launch.Pool, name
			for key, q := range t.Requirements {
				if _, fixed := out.Labels[key]; !fixed && q.Operator() == label.OpIn {
					out.Labels[key] = q.Values()[0]
				}
			}
		}
	}
	return out
}

// remove takes nodes away, and puts their pods where they are meant to be.
func (l *landing) remove(t *testing.T, nodes []plan.Removal) {
	t.Helper()
	for _, r := range nodes {
		gone := *l.node(r.Node)
		l.snap.Nodes = slices.DeleteFunc(l.snap.Nodes, func(n cluster.Node) bool { return n.Name == r.Node })
		for _, pod := range gone.Residents {
			if l.evictions++; !pod.Moved.IsZero() {
				l.again++
				if ago := l.snap.At.Sub(pod.Moved); ago < 10*time.Minute {
					t.Errorf("%s was evicted %s ago", pod.Name, ago)
				}
			}
			n := l.node(l.homes[pod.UID])
			pod.Home, pod.Moved = "", l.snap.At
			n.Residents, n.Empty = append(n.Residents, pod), false
			n.Used = n.Used.Plus(pod.Shape.Requests)
			n.Pods = append(n.Pods, cluster.PodCount{Shape: pod.Shape, Count: 1})
		}
	}
}
