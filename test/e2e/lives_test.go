package e2e

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

const (
	theController = "the controller"
	// livesPods pods of one cpu come and go.
	livesPods = 100
	// livesPatience bounds waits for what others than the controller do: it may take half a minute until the controllers of
	// Cluster API have connected to the cluster, and as long again after a restart.
	livesPatience = 4 * time.Minute
	// lifeIdle is how long a life may last in which nothing happens.
	lifeIdle = 20 * time.Second
)

// lives is a cluster in which a controller and the programs that it depends on are killed at random moments.
type lives struct {
	t          *testing.T
	client     client.Client
	random     *rand.Rand
	start      func() *process                   // starts a controller
	others     map[string]func()                 // each kills one of the other programs, and starts it again
	instances  func() (map[string]string, error) // the claim of each instance that the provider has, by provider ID
	controller *process
	claims     map[types.UID]bool // all that were ever seen
	launched   map[string]string  // the provider ID of each claim's instance, of all that were ever seen
	kills      int
	next       []string // who is killed next: each program once in a round
	began      time.Time
}

// newLives returns a cluster whose client is c. Who uses it has it start a controller.
func newLives(t *testing.T, c client.Client) *lives {
	l := &lives{t: t, client: c, random: rand.New(rand.NewPCG(*crashSeed, 1)), others: map[string]func(){}, claims: map[types.UID]bool{}, launched: map[string]string{}, began: time.Now()}
	t.Cleanup(func() {
		if t.Failed() && l.controller != nil {
			t.Logf("the last controller: %s", l.controller)
		}
	})
	return l
}

// grow has pods come, and kills a program as often.
func (l *lives) grow(kills int) {
	l.t.Helper()
	for i := range max(1, kills) {
		deploy(l.t, l.client, livesPods*(i+1)/max(1, kills))
		if i < kills {
			l.life(grown)
		}
	}
	testkit.Eventually(l.t, livesPatience, l.complete)
	l.stage("all pods run")
}

// complete returns an error unless all pods run, and NodeClaims, instances and Nodes are one to one.
func (l *lives) complete() error {
	now := l.observe()
	if now.running() != livesPods || len(now.pods) != livesPods {
		return fmt.Errorf("%d of %d pods run, want %d; %d nodes, %d claims", now.running(), len(now.pods), livesPods, len(now.nodes), len(now.claims))
	}
	instances, err := l.instances()
	if err != nil {
		return err
	}
	nodes := map[string]string{} // names by provider ID
	for i := range now.nodes {
		nodes[now.nodes[i].Spec.ProviderID] = now.nodes[i].Name
	}
	if n := len(now.claims); len(instances) != n || len(now.nodes) != n || len(nodes) != n {
		return fmt.Errorf("%d claims, %d instances, %d nodes with %d provider IDs", n, len(instances), len(now.nodes), len(nodes))
	}
	for i := range now.claims {
		nc := &now.claims[i]
		switch id := nc.Status.ProviderID; {
		case nc.DeletionTimestamp != nil || !is(nc, karpenterv1.ConditionTypeInitialized):
			return fmt.Errorf("claim %s is not initialized, or goes", nc.Name)
		case instances[id] != nc.Name || nodes[id] == "" || nodes[id] != nc.Status.NodeName:
			return fmt.Errorf("claim %s has the node %s and the provider ID %s, which is of an instance of the claim %q and of the node %q", nc.Name, nc.Status.NodeName, id, instances[id], nodes[id])
		}
	}
	return nil
}

// shrink has all pods go, and kills a program so often.
func (l *lives) shrink(kills int) {
	l.t.Helper()
	for i := range max(1, kills) {
		deploy(l.t, l.client, livesPods*(max(1, kills)-i-1)/max(1, kills))
		if i < kills {
			l.life(shrunk)
		}
	}
	testkit.Eventually(l.t, livesPatience, func() error {
		now := l.observe()
		instances, err := l.instances()
		if n := len(now.claims) + len(now.nodes) + len(now.pods) + len(instances); err == nil && n > 0 {
			err = fmt.Errorf("%d claims, %d nodes, %d pods and %d instances are left", len(now.claims), len(now.nodes), len(now.pods), len(instances))
		}
		return err
	})
	l.stage("nothing is left")
	testkit.Eventually(l.t, patience, func() error { // the last kill may have been of it
		if !strings.Contains(l.controller.String(), `"started"`) {
			return errors.New("the controller has not started")
		}
		return nil
	})
	if status := l.controller.stop(); status != 0 {
		l.t.Errorf("exit status %d", status)
	}
}

// life waits until a random number of steps has been done, kills one of the programs, and starts it again.
func (l *lives) life(done func(*picture) int) {
	l.t.Helper()
	before, steps := done(l.observe()), l.random.IntN(growMost)
	victim := l.victim()
	end, tick := time.NewTimer(lifeIdle), time.NewTicker(observeEvery)
	defer end.Stop()
	defer tick.Stop()
	for over := false; !over && done(l.observe()) < before+steps; {
		select {
		case <-end.C:
			over = true
		case <-tick.C:
		}
	}
	l.kills++
	if victim == theController {
		if !l.controller.running() {
			l.t.Fatalf("the controller ended by itself:\n%s", l.controller)
		}
		l.controller.kill()
		l.controller = l.start()
	} else {
		l.others[victim]()
	}
	l.stage(fmt.Sprintf("kill %d, %s, after %d of %d steps", l.kills, victim, done(l.observe())-before, steps))
}

// victim returns who is killed next.
func (l *lives) victim() string {
	if len(l.next) == 0 {
		l.next = append(slices.Sorted(maps.Keys(l.others)), theController)
		l.random.Shuffle(len(l.next), func(i, j int) { l.next[i], l.next[j] = l.next[j], l.next[i] })
	}
	victim := l.next[0]
	l.next = l.next[1:]
	return victim
}

func (l *lives) observe() *picture {
	l.t.Helper()
	p, err := observe(l.t.Context(), l.client)
	if err != nil {
		l.t.Fatal(err)
	}
	for i := range p.claims {
		l.claims[p.claims[i].UID] = true
	}
	instances, err := l.instances() // of an error the next observation says more
	for id, claim := range instances {
		if before := l.launched[claim]; err == nil && id != "" && before != id {
			if l.launched[claim] = id; before != "" {
				l.t.Errorf("claim %s has had the instances %s and %s", claim, before, id)
			}
		}
	}
	return p
}

// decidedOnce fails if there were more claims than pods need: a kill has nothing launched twice, since a claim that was decided is
// capacity to the next life. A plan may leave a node half full, and there is one plan a kill or two.
func (l *lives) decidedOnce(cpus int) {
	l.t.Helper()
	if want := (livesPods+cpus-1)/cpus + l.kills; len(l.claims) > want {
		l.t.Errorf("there were %d claims; for %d pods it should be %d at the most", len(l.claims), livesPods, want)
	}
}

// stage logs how far the test is.
func (l *lives) stage(what string) {
	l.t.Helper()
	now := l.observe()
	l.t.Logf("%5.1f s: %s; %d claims, %d nodes, %d of %d pods run", time.Since(l.began).Seconds(), what, len(now.claims), len(now.nodes), now.running(), len(now.pods))
}

// livesPool returns a pool of a class and of instance types. All of its nodes may go at once.
func livesPool(class karpenterv1.NodeClassReference, instanceTypes ...string) *karpenterv1.NodePool {
	second := time.Second
	return &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: karpenterv1.NodePoolSpec{
		Disruption: karpenterv1.Disruption{
			ConsolidationPolicy: karpenterv1.ConsolidationPolicyWhenEmpty, ConsolidateAfter: karpenterv1.NillableDuration{Duration: &second},
			Budgets: []karpenterv1.Budget{{Nodes: "100%"}},
		},
		Template: karpenterv1.NodeClaimTemplate{Spec: karpenterv1.NodeClaimTemplateSpec{
			NodeClassRef: &class,
			Requirements: []karpenterv1.NodeSelectorRequirementWithMinValues{{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: instanceTypes}},
		}},
	}}
}
