package simulate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/consolidate"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

// TestThePromiseIsKeptWherePodsSpread consolidates nodes a fifth at a time, and puts the pods
// where kube-scheduler would: on the node with most free, on those that are kept for later, or
// go later, only if there is no other. They come largest first, as they are evicted. Without the
// nodes that are kept for later it ends at 1.15 to 1.21 of the promise.
func TestThePromiseIsKeptWherePodsSpread(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s := &spreading{outcome: newOutcome(alike(100, seed).Snapshot(time.Unix(1e9, 0)))}
			s.empty = s.snap.Nodes[0]
			s.empty.Reschedulable, s.empty.Pods, s.empty.Used = nil, nil, quantity.List{}
			s.snap.Pools[0].Budgets = []cluster.Budget{{Nodes: 20, Percent: true, Active: true}}
			promised := consolidate.Search(s.snap, consolidate.Options{Pack: scenarioOptions()}).AfterHourly
			for s.rounds = 1; s.round(t); s.rounds++ {
				if s.rounds == outcomeRounds {
					t.Fatalf("there is no end after %d rounds", s.rounds)
				}
			}
			t.Logf("%.3f $/h after %d rounds, promised %.3f; %d evictions, %d launched, %d taints", s.price(), s.rounds, promised, s.evictions, s.launches, s.taints)
			if s.price() > 1.03*promised {
				t.Errorf("it ended at %.3f of the promise", s.price()/promised)
			}
			if i := slices.IndexFunc(s.snap.Nodes, func(n cluster.Node) bool { return n.SoftTaint }); i >= 0 {
				t.Errorf("pods are kept from %s though all is over", s.snap.Nodes[i].Name)
			}
		})
	}
}

// alike returns a cluster of nodes of one type, used to two fifths by pods of three sizes.
func alike(nodes int, seed uint64) *scenario.Scenario {
	r := rand.New(rand.NewPCG(seed, 1))
	s := &scenario.Scenario{
		Format: scenario.Format, Name: "alike", NodePools: []scenario.NodePool{{Name: "default"}},
		InstanceTypes: []scenario.InstanceType{{
			Name: "four", CPU: 4000, Mem: 16384, Pods: 110, ReservedCPU: 100, ReservedMem: 500,
			Offerings: []scenario.Offering{{Zone: "a", CapacityType: onDemandType, Price: 0.076}},
		}},
	}
	for _, milli := range []int64{500, 1000, 1500} {
		s.PodGroups = append(s.PodGroups, scenario.PodGroup{CPU: milli, Mem: 100, Labels: map[string]string{"app": fmt.Sprint(milli)}})
	}
	for i := range nodes {
		n := scenario.Node{Name: fmt.Sprintf("node-%05d", i), Type: "four", Zone: "a", CapacityType: onDemandType, Pool: "default"}
		count := map[int]int{r.IntN(3): 1}
		if second := r.IntN(3); r.IntN(3) > 0 && second < 2 {
			count[second]++
		}
		for g := range s.PodGroups {
			if count[g] > 0 {
				n.Pods = append(n.Pods, scenario.Share{g, count[g]})
			}
		}
		s.Nodes = append(s.Nodes, n)
	}
	return s
}

// spreading is a landing in which pods go where kube-scheduler puts them.
type spreading struct {
	*outcome
	empty  cluster.Node
	taints int
}

// round carries out what is proposed; false: that is nothing any more.
func (s *spreading) round(t *testing.T) bool {
	t.Helper()
	p, next := disrupt.Propose(s.snap, disrupt.Memory{BestTry: s.try, AllTriesAt: s.snap.At}, disrupt.Options{Pack: scenarioOptions()})
	s.try = next.BestTry
	for _, name := range p.SoftTaints {
		s.node(name).SoftTaint = true
	}
	for _, name := range p.SoftTaintsOver {
		s.node(name).SoftTaint = false
	}
	s.taints += len(p.SoftTaints) + len(p.SoftTaintsOver)
	var pods []cluster.ReschedulablePod
	for i := range p.Commands {
		for _, r := range p.Commands[i].Remove {
			pods = append(pods, s.node(r.Node).Reschedulable...)
			s.snap.Nodes = slices.DeleteFunc(s.snap.Nodes, func(n cluster.Node) bool { return n.Name == r.Node })
		}
	}
	slices.SortStableFunc(pods, func(a, b cluster.ReschedulablePod) int {
		return lifecycle.SizeOf(b.Constraints.Requests) - lifecycle.SizeOf(a.Constraints.Requests)
	})
	for i := range pods {
		s.bind(t, pods[i])
	}
	s.snap.At = s.snap.At.Add(20 * time.Second)
	return len(p.Commands)+len(p.SoftTaintsOver) > 0
}

// bind puts a pod where most is free.
func (s *spreading) bind(t *testing.T, pod cluster.ReschedulablePod) {
	t.Helper()
	if s.evictions++; !pod.Moved.IsZero() {
		t.Errorf("%s is evicted twice", pod.Name)
	}
	var best *cluster.Node
	for i := range s.snap.Nodes {
		n := &s.snap.Nodes[i]
		better := best == nil || best.SoftTaint && !n.SoftTaint || best.SoftTaint == n.SoftTaint && n.Used[quantity.CPU] < best.Used[quantity.CPU]
		if better && n.Used.Plus(pod.Constraints.Requests).Fits(n.Allocatable) {
			best = n
		}
	}
	if best == nil { // so one is launched for it
		s.launches++
		s.snap.Nodes = append(s.snap.Nodes, s.empty)
		best = &s.snap.Nodes[len(s.snap.Nodes)-1]
		best.Name = fmt.Sprintf("new-%d", s.launches)
		best.Claim, best.Created = best.Name, s.snap.At
	}
	pod.Moved = s.snap.At
	best.Reschedulable, best.Used, best.Empty, best.LastPodEvent = append(best.Reschedulable, pod), best.Used.Plus(pod.Constraints.Requests), false, s.snap.At
	best.Pods = append(slices.Clip(best.Pods), cluster.PodCount{Constraints: pod.Constraints, Count: 1})
}
