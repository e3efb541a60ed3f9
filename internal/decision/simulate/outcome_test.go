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

// TestWhatIsBegunIsFinished carries out what is proposed, as many commands at once as there are,
// until nothing is. When the replacements are there, the validation before the nodes go finds a
// target node for every pod, as the search did, however full that makes the others. (Some pods
// that are spread may have to wait: a later command takes from a zone what an earlier one counts
// on.) Where budgets let few pods go at a time the plan is made anew many times, and commands
// launch nodes for pods of later ones that may never come: it comes to an end all the same, near
// what the first plan has promised, and no pod is evicted twice within ten minutes.
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
			l := newOutcome(f.generate(t, 40, 1).Snapshot(time.Unix(1e9, 0)))
			promised := consolidate.Search(l.snap, consolidate.Options{Terms: anySpot(), Pack: scenarioOptions()}).AfterHourly
			for idle := 0; idle < outcomeRest && !t.Failed(); {
				if idle++; l.round(t) {
					idle = 0
				}
				if l.rounds++; l.rounds == outcomeRounds {
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
	// outcomeRounds bounds how often it is looked for more, every landingPause; nothing is
	// expected any more after landingRest times in vain, when moved pods may move again.
	outcomeRounds, outcomePause, outcomeRest = 60, 2 * time.Minute, 6
)

// outcome is a cluster in which steps are carried out, and pods go where they are meant to.
type outcome struct {
	snap                    *cluster.Snapshot
	rounds, begun, launches int
	evictions, again        int
	try                     int               // that found most in the last round
	targets                 map[string]string // of pods of steps under way, by their UID
}

func newOutcome(snap *cluster.Snapshot) *outcome {
	pods := 0
	snap.Pools[0].Budgets = []cluster.Budget{{Nodes: 100, Percent: true, Active: true}}
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		n.Claim, n.Empty = n.Name, len(n.Reschedulable) == 0
		for r := range n.Reschedulable {
			pods++
			n.Reschedulable[r].Name, n.Reschedulable[r].UID = fmt.Sprintf("p%06d", pods), fmt.Sprint(pods)
		}
	}
	return &outcome{snap: snap}
}

func (l *outcome) node(name string) *cluster.Node {
	i := slices.IndexFunc(l.snap.Nodes, func(n cluster.Node) bool { return n.Name == name })
	return &l.snap.Nodes[i]
}

// round begins what is proposed, and has all its nodes go.
func (l *outcome) round(t *testing.T) bool {
	t.Helper()
	opts := disrupt.Options{Grace: 2 * time.Second, Terms: anySpot(), Pack: scenarioOptions()}
	memory := disrupt.Memory{BestTry: l.try, AllTriesAt: l.snap.At}
	p, next := disrupt.Propose(l.snap, memory, opts)
	l.try = next.BestTry
	l.targets = map[string]string{}
	for i := range p.Commands {
		l.begin(&p.Commands[i])
	}
	began := l.snap.At
	l.snap.At = began.Add(3 * time.Second)
	q, _ := disrupt.Propose(l.snap, disrupt.Memory{Busy: true, DecidedAt: l.snap.At}, opts)
	for i := range q.Undos {
		t.Errorf("step %s of %d is taken back: %s", q.Undos[i].Command, len(p.Commands), q.Undos[i].Why)
	}
	l.remove(t, q.Removals)
	for i := range l.snap.Nodes {
		n := &l.snap.Nodes[i]
		if n.Replaces = ""; n.DisruptionReason != "" {
			t.Errorf("%s is still there", n.Name)
		}
	}
	l.snap.At = began.Add(outcomePause)
	return len(p.Commands) > 0
}

// price returns what all nodes cost.
func (l *outcome) price() (sum float64) {
	prices := cluster.NewPrices(l.snap)
	for i := range l.snap.Nodes {
		p, _ := prices.Of(&l.snap.Nodes[i])
		sum += p
	}
	return sum
}

// begin marks the nodes of a step, and has what it launches be there.
func (l *outcome) begin(s *plan.Command) {
	l.begun++
	for _, m := range s.Moves {
		l.targets[m.Pod.UID] = m.Node
	}
	for i := range s.Launch {
		l.launches++
		name := fmt.Sprintf("was-%05d", l.launches)
		l.snap.Nodes = append(l.snap.Nodes, l.launched(name, &s.Launch[i]))
		for _, pod := range s.Launch[i].Pods {
			l.targets[pod.UID] = name
		}
	}
	for _, r := range s.Remove {
		n := l.node(r.Node)
		n.DisruptionReason, n.DisruptedSince, n.DisruptedTaint, n.Step, n.StepRemoves, n.StepLaunches = s.Reason, l.snap.At, true, s.ID, len(s.Remove), len(s.Launch)
		n.Taints = append(n.Taints, cluster.Taint{Key: "karpenter.sh/disrupted", Effect: cluster.NoSchedule})
		for i := range n.Reschedulable {
			n.Reschedulable[i].TargetNode = l.targets[n.Reschedulable[i].UID]
		}
	}
	slices.SortFunc(l.snap.Nodes, func(a, b cluster.Node) int { return cmp.Compare(a.Name, b.Name) })
}

// launched returns the node of the cheapest offering of a launch.
func (l *outcome) launched(name string, launch *plan.Launch) (out cluster.Node) {
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
				Initialized: true, Ready: true, Empty: true, Created: l.snap.At, LastPodEvent: l.snap.At, Labels: offered,
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
func (l *outcome) remove(t *testing.T, nodes []plan.Removal) {
	t.Helper()
	for _, r := range nodes {
		gone := *l.node(r.Node)
		l.snap.Nodes = slices.DeleteFunc(l.snap.Nodes, func(n cluster.Node) bool { return n.Name == r.Node })
		for _, pod := range gone.Reschedulable {
			if l.evictions++; !pod.Moved.IsZero() {
				l.again++
				if ago := l.snap.At.Sub(pod.Moved); ago < 10*time.Minute {
					t.Errorf("%s was evicted %s ago", pod.Name, ago)
				}
			}
			n := l.node(l.targets[pod.UID])
			pod.TargetNode, pod.Moved = "", l.snap.At
			n.Reschedulable, n.Empty = append(n.Reschedulable, pod), false
			n.Used = n.Used.Plus(pod.Constraints.Requests)
			n.Pods = append(n.Pods, cluster.PodCount{Constraints: pod.Constraints, Count: 1})
		}
	}
}
