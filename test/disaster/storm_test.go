package disaster

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

var stormNodes = flag.Int("storm-nodes", 40, "how many nodes there are when half of them are taken back")

// answered is how long a pod may be without a node before somebody must have said
// something about it: the batch window, and then some.
const answered = 15 * time.Second

// TestSpotStorm takes half of the nodes of a cluster back: each gets its two minutes'
// notice within one minute. When a node's two minutes end, none of its pods may be left on
// it, and each pod of the cluster runs or has a node, or an event says for which instance it
// waits, or what was short. The pool's budget, a tenth of the nodes, does not matter.
func TestSpotStorm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorm(t, fewer(*stormNodes))
		defer s.end()
		s.rage(t)
		if most := s.pods / 50; s.waiting > most {
			t.Errorf("%d pods waited for an instance when theirs was gone, more than %d: replacements come before the drain, whatever the pool's budget", s.waiting, most)
		}
		if s.refused > 0 || len(s.held) > 0 {
			t.Errorf("%d pods were refused and %d were not let go, though nothing was short", s.refused, len(s.held))
		}
	})
}

// TestSpotStormWithoutCapacity has every pool of EC2 run out when the storm begins: nothing
// can be replaced, and each pod must have an event that says so.
func TestSpotStormWithoutCapacity(t *testing.T) {
	t.Parallel()
	testkit.Long(t)
	synctest.Test(t, func(t *testing.T) {
		s := newStorm(t, fewer(*stormNodes))
		defer s.end()
		if err := s.sim.Inject(awssim.Fault{Kind: awssim.FaultShort, For: metav1.Duration{Duration: 5 * time.Minute}}); err != nil {
			t.Fatal(err)
		}
		s.rage(t)
		if s.refused == 0 {
			t.Error("no pod was refused, though everything was short")
		}
	})
}

// storm is a world half of whose instances are taken back.
type storm struct {
	*world
	pods, nodes int
	// ends is when the time of instances is over, by instance id.
	ends map[string]time.Time
	// late are pods on a node at its end, and held those among them that their disruption
	// budget kept there; lost are those without a node that nobody spoke of.
	late, held, lost map[cluster.Key]string
	// refused and waiting are how many pods without a node there were at most at the end of
	// a node: refused, and waiting for an instance that an event names.
	refused, waiting int
}

// fewer returns a quarter with the race detector, which sees as much in that.
func fewer(n int) int {
	if testkit.Raced {
		return n / 4
	}
	return n
}

// newStorm fills a cluster's nodes.
func newStorm(t *testing.T, nodes int) *storm {
	t.Helper()
	const apps = 10
	s := &storm{world: newWorld(t, nil), nodes: nodes, pods: nodes * 7, ends: map[string]time.Time{}, late: map[cluster.Key]string{}, held: map[cluster.Key]string{}, lost: map[cluster.Key]string{}}
	s.furnish("8") // and the kubelet keeps a part of that
	s.begin()
	s.until(5*time.Minute, s.poolReady)
	for i := range apps {
		s.kube.scale(&cluster.Workload{Name: fmt.Sprintf("app-%d", i), CPUMilli: 1000, MemoryMiB: 1024, GraceSeconds: 20}, s.pods/apps)
	}
	s.until(15*time.Minute, func() string { return s.allRun(s.pods) })
	s.until(15*time.Minute, s.agree)
	return s
}

func (s *storm) rage(t *testing.T) {
	t.Helper()
	t.Log("before the storm:", s.picture())
	targets := s.sim.Instances()
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(targets), func(i, j int) { targets[i], targets[j] = targets[j], targets[i] })
	targets = targets[:s.nodes/2]
	begun, struck, least := time.Now(), 0, s.pods
	for time.Since(begun) < 4*time.Minute {
		for due := int(time.Since(begun).Seconds() * float64(len(targets)) / 60); struck < min(due, len(targets)); struck++ {
			if err := s.sim.Inject(awssim.Fault{Kind: awssim.FaultInterrupt, Target: targets[struck].ID}); err != nil {
				t.Fatal(err)
			}
			s.ends[targets[struck].ID] = time.Now().Add(2 * time.Minute)
		}
		time.Sleep(100 * time.Millisecond)
		s.judge()
		least = min(least, s.picture().running)
	}
	t.Logf("%d nodes were taken back; at their ends %d pods were still on one (%d more because of budgets), %d waited for an instance at most, %d were refused, %d had no answer; %d pods ran at least",
		struck, len(s.late), len(s.held), s.waiting, s.refused, len(s.lost), least)
	for _, lines := range []map[cluster.Key]string{s.late, s.lost} {
		for k, why := range lines {
			t.Errorf("%s %s", k, why)
		}
	}
	s.until(15*time.Minute, func() string { return s.allRun(s.pods) })
	s.until(15*time.Minute, s.agree)
	t.Logf("after the storm: %s", s.picture())
}

// judge checks the pods when the time of an instance is just over.
func (s *storm) judge() {
	over := map[string]bool{}
	for instance, at := range s.ends {
		if time.Until(at) <= 100*time.Millisecond {
			over[instance] = true
			delete(s.ends, instance)
		}
	}
	if len(over) == 0 {
		return
	}
	waiting, refused := 0, 0
	s.kube.locked(func() {
		for _, node := range cluster.All[*corev1.Node](s.kube.api) {
			if !over[node.Spec.ProviderID[strings.LastIndex(node.Spec.ProviderID, "/")+1:]] {
				continue
			}
			for _, pod := range s.kube.api.PodsOn(node.Name) {
				kept := s.late
				if b, _ := cluster.Find[*policyv1.PodDisruptionBudget](s.kube.api, pod.Namespace, pod.Labels[cluster.AppLabel]); b.Status.DisruptionsAllowed == 0 {
					kept = s.held
				}
				kept[cluster.KeyOf(pod)] = fmt.Sprintf("is still on %s at its end; taints %v", node.Name, node.Spec.Taints)
			}
		}
		for _, pod := range cluster.All[*corev1.Pod](s.kube.api) {
			if pod.Spec.NodeName != "" {
				continue
			}
			k := cluster.KeyOf(pod)
			waits := time.Since(pod.CreationTimestamp.Time)
			switch said := s.lastSaid(k); {
			case strings.HasPrefix(said, "FailedScheduling"):
				refused++
			case strings.HasPrefix(said, "Nominated"):
				waiting++
			case waits > answered:
				s.lost[k] = fmt.Sprintf("has waited for %s and the last event says %q", waits, said)
			}
		}
	})
	s.waiting, s.refused = max(s.waiting, waiting), max(s.refused, refused)
}
