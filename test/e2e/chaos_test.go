package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cli/demo"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

const (
	chaosPods = 100
	// chaosCPUs makes nodes small, so that there are many: three pods fit on the largest.
	chaosCPUs = 4
	// killsEach is how often the controller is killed on the way up, and on the way down.
	killsEach = 10
	// growMost and shrinkMost are the most steps that a life may see done before it ends,
	// jitterMost how much longer it may last, lifeMost its bound if nothing gets done.
	growMost     = 40
	shrinkMost   = 80
	jitterMost   = 200 * time.Millisecond
	lifeMost     = 3 * time.Second
	observeEvery = 25 * time.Millisecond
)

// TestNothingIsLostWhenTheControllerIsKilled kills the controller at 20 random moments of a
// scale-up and a scale-down. E2E_SEED repeats a choice of moments, as far as that goes
// with real processes.
func TestNothingIsLostWhenTheControllerIsKilled(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	if text := os.Getenv("E2E_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("E2E_SEED: %v", err)
		}
	}
	t.Logf("E2E_SEED=%d", seed)
	cluster := testkit.StartCluster(t)
	m := &monkey{
		t: t, client: connect(t, cluster), kubeconfig: cluster.Kubeconfig,
		random: rand.New(rand.NewPCG(seed, 0)), claims: map[types.UID]int64{},
	}
	installDefinitions(t, m.client)
	installPool(t, m.client, chaosCPUs)
	delayRegistration(t, m.client, "1s") // so that there are moments to be killed in between

	for i := range killsEach {
		// More work for each life: what is pending is decided about within a moment.
		pods := chaosPods * (i + 1) / killsEach
		deploy(t, m.client, pods)
		m.life(grown, growMost)
		m.checkRoom(pods)
	}
	last := m.start()
	awaitRunning(t, m.client, chaosPods)
	testkit.Eventually(t, patience, m.agree)
	m.checkRoom(chaosPods)
	last.kill()

	deploy(t, m.client, 0)
	for range killsEach - 1 { // the tenth was at the top
		m.life(shrunk, shrinkMost)
	}
	m.start()
	testkit.Eventually(t, patience, m.nothingLeft)
}

// monkey starts the controller and kills it.
type monkey struct {
	t          *testing.T
	client     client.Client
	kubeconfig string
	random     *rand.Rand
	lives      int
	claims     map[types.UID]int64 // all that were ever seen, with how many pods fit on each
}

func (m *monkey) start() *process {
	return controller(m.t, m.kubeconfig, "--disable-leader-election=true", "--batch-idle-duration", "300ms")
}

// delayRegistration has the nodes join so long after their launch.
func delayRegistration(t testing.TB, c client.Client, delay string) {
	t.Helper()
	class := &unstructured.Unstructured{}
	class.SetGroupVersionKind(kwokv1alpha1.GroupVersion.WithKind("KWOKNodeClass"))
	class.SetName("default")
	set(t, class, delay, "spec", "nodeRegistrationDelay")
	if err := demo.Apply(t.Context(), c, class); err != nil {
		t.Fatal(err)
	}
}

// life runs a controller until it has done a random number of steps, and a little longer.
func (m *monkey) life(done func(*picture) int, stepsMost int) {
	m.t.Helper()
	before := done(m.observe())
	steps := m.random.IntN(stepsMost)
	jitter := time.NewTimer(time.Duration(m.random.Int64N(int64(jitterMost))))
	p := m.start()
	end := time.NewTimer(lifeMost)
	defer end.Stop()
	tick := time.NewTicker(observeEvery)
	defer tick.Stop()
	for over := false; !over && done(m.observe()) < before+steps; {
		select {
		case <-end.C:
			over = true
		case <-p.gone:
			m.t.Fatalf("the controller ended by itself:\n%s", p)
		case <-tick.C:
		}
	}
	<-jitter.C
	p.kill()
	m.lives++
	now := m.observe()
	m.t.Logf("kill %d: wanted %d steps, saw %d; %d claims, %d nodes, %d of %d pods bound",
		m.lives, steps, done(now)-before, len(now.claims), len(now.nodes), now.bound(), len(now.pods))
}

func (m *monkey) observe() *picture {
	m.t.Helper()
	p, err := observe(m.t.Context(), m.client)
	if err != nil {
		m.t.Fatalf("look at the cluster: %v", err)
	}
	for i := range p.claims {
		m.claims[p.claims[i].UID] = p.claims[i].Status.Allocatable.Cpu().MilliValue() / 1000
	}
	return p
}

// checkRoom fails if more nodes were ever decided than so many pods need: some of them
// then were decided about twice. A plan launches the smallest nodes that hold its pods, so
// that each leaves room for one more at the most, and there is one plan a life or two.
func (m *monkey) checkRoom(pods int) {
	m.t.Helper()
	var room int64
	for _, n := range m.claims {
		room += n
	}
	if most := int64(pods + m.lives + 1); room > most {
		m.t.Errorf("after %d kills there were %d claims with room for %d pods; for %d pods it should be %d at the most", m.lives, len(m.claims), room, pods, most)
	}
}

// grown counts the steps of a scale-up that have been taken.
func grown(p *picture) int {
	n := len(p.claims) + len(p.nodes) + p.bound()
	for i := range p.claims {
		for _, c := range p.claims[i].Status.Conditions {
			if c.Status == "True" {
				n++
			}
		}
	}
	return n
}

// shrunk counts the steps of a scale-down that have been taken.
func shrunk(p *picture) int {
	n := -10 * (len(p.claims) + len(p.nodes))
	for i := range p.claims {
		if p.claims[i].DeletionTimestamp != nil {
			n++
		}
	}
	for i := range p.nodes {
		if p.nodes[i].DeletionTimestamp != nil {
			n++
		}
		n += len(p.nodes[i].Spec.Taints)
	}
	return n
}

// agree returns an error unless instances, claims and Nodes are the same nodes, and
// all pods run on them.
func (m *monkey) agree() error {
	p := m.observe()
	instances, err := m.instances(p)
	if err != nil {
		return err
	}
	if len(instances) != len(p.claims) || len(p.nodes) != len(p.claims) {
		return fmt.Errorf("%d instances, %d claims, %d nodes", len(instances), len(p.claims), len(p.nodes))
	}
	nodes := map[string]string{} // by providerID
	for i := range p.nodes {
		n := &p.nodes[i]
		if n.DeletionTimestamp != nil || n.Labels[karpenterv1.NodeRegisteredLabelKey] != "true" {
			return fmt.Errorf("node %s is deleting or not registered", n.Name)
		}
		nodes[n.Spec.ProviderID] = n.Name
	}
	for i := range p.claims {
		c := &p.claims[i]
		id := c.Status.ProviderID
		if c.DeletionTimestamp != nil || !instances[id] || nodes[id] == "" || nodes[id] != c.Status.NodeName {
			return fmt.Errorf("claim %s has instance %q and node %q, which has node %q", c.Name, id, c.Status.NodeName, nodes[id])
		}
		delete(nodes, id) // no two claims may have the same one
	}
	return nil
}

// instances returns the IDs of the nodes that kwok has: those that are Nodes, and
// those that have not joined.
func (m *monkey) instances(p *picture) (map[string]bool, error) {
	var waiting coordinationv1.LeaseList
	if err := m.client.List(m.t.Context(), &waiting, client.InNamespace("kube-node-lease"), client.HasLabels{kwokv1alpha1.Group + "/launch"}); err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for i := range waiting.Items {
		out["waiting: "+waiting.Items[i].Name] = true
	}
	for i := range p.nodes {
		if id := p.nodes[i].Spec.ProviderID; strings.HasPrefix(id, "kwok://") {
			out[id] = true
		}
	}
	return out, nil
}

func (m *monkey) nothingLeft() error {
	p := m.observe()
	instances, err := m.instances(p)
	if err != nil {
		return err
	}
	if len(instances)+len(p.claims)+len(p.nodes)+len(p.pods) > 0 {
		return errors.New(m.describe(p, len(instances)))
	}
	return nil
}

func (m *monkey) describe(p *picture, instances int) string {
	return fmt.Sprintf("%d instances, %d claims, %d nodes and %d pods are left", instances, len(p.claims), len(p.nodes), len(p.pods))
}
