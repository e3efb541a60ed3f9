package e2e

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/consolidate"
	"github.com/dovetail-sh/dovetail/internal/decision/simulate"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

const (
	// largeEnv asks for the sizes of the issue instead of small ones.
	largeEnv = "E2E_LARGE"
	// useKept is the share of all cpus that pods ask for before consolidation, useMost the
	// share of those of one node.
	useKept, useMost = 0.4, 0.6
	// promiseMost is how much dearer than promised the end may be; where nodes are so few
	// that one is about as much, one more is let pass.
	promiseMost = 1.1
	// awayMost is how many pods of a workload its PodDisruptionBudget lets be away.
	awayMost = 2
	// pulser is the workload that grows and shrinks; it has no PodDisruptionBudget.
	pulser = "pulser"
)

// thinned is a cluster of nodes that are used too little.
type thinned struct {
	cluster  *testkit.Cluster
	client   client.Client
	process  *process
	patience time.Duration
	// pulse is how many pods the load that comes and goes has at most.
	pulse int
	// replicas are the pods of each workload.
	replicas map[string]int
}

// thinCluster starts a cluster and fills nodes of four cpus with workloads, each under
// a PodDisruptionBudget; then it scales them down, so that on each node some pods are
// left. Nothing is consolidated before letGo.
func thinCluster(t *testing.T) *thinned {
	t.Helper()
	nodes, workloads := 24, 4
	th := &thinned{patience: 2 * patience, pulse: 36}
	if os.Getenv(largeEnv) != "" {
		nodes, workloads = 200, 20
		th.patience, th.pulse = 10*time.Minute, 300
	}
	th.cluster = testkit.StartCluster(t)
	c := connect(t, th.cluster)
	th.client = c
	installDefinitions(t, c)
	installPool(t, c, chaosCPUs)
	changePool(t, c, func(np *karpenterv1.NodePool) {
		np.Spec.Limits = nil
		np.Spec.Disruption.ConsolidateAfter = karpenterv1.NillableDuration{}
		np.Spec.Disruption.ConsolidationPolicy = karpenterv1.ConsolidationPolicyWhenEmptyOrUnderutilized
		np.Spec.Disruption.Budgets = []karpenterv1.Budget{{Nodes: "20%"}}
	})
	th.process = controller(t, th.cluster.Kubeconfig, "--disable-leader-election=true", "--batch-idle-duration", "300ms", "--feature-gates", "SpotToSpotConsolidation=true")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", th.process)
		}
	})
	each := nodes * 7 / 2 / workloads // nodes of four cpus hold three and a half pods on average
	for i := range workloads {
		milli := []int64{500, 1000, 1500}[i%3]
		if workloads%3 == 1 && i == workloads-1 {
			milli = 1000
		}
		createWorkload(t, c, fmt.Sprintf("w%02d", i), each, milli)
	}
	th.awaitRunning(t, each*workloads)
	th.thin(t)
	return th
}

// createWorkload creates a Deployment and its PodDisruptionBudget.
func createWorkload(t *testing.T, c client.Client, name string, pods int, cpuMilli int64) {
	t.Helper()
	labels := map[string]string{"app": name}
	away, replicas := intstr.FromInt32(awayMost), int32(pods)
	requests := corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(cpuMilli, resource.DecimalSI)}
	objects := []client.Object{&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "c", Image: "none", Resources: corev1.ResourceRequirements{Requests: requests},
				}}},
			},
		},
	}}
	if name != pulser {
		objects = append(objects, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &away, Selector: &metav1.LabelSelector{MatchLabels: labels}},
		})
	}
	for _, o := range objects {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// scaleWorkload sets how many pods a Deployment has.
func scaleWorkload(t *testing.T, c client.Client, name string, pods int) {
	t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, pods)
	if err := c.Patch(t.Context(), d, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		t.Fatal(err)
	}
}

func (th *thinned) awaitRunning(t *testing.T, pods int) {
	t.Helper()
	testkit.Eventually(t, th.patience, func() error {
		p, err := observe(t.Context(), th.client)
		if err != nil {
			return err
		}
		if p.running() != pods || len(p.pods) != pods {
			return fmt.Errorf("%d of %d pods run, want %d; %d claims", p.running(), len(p.pods), pods, len(p.claims))
		}
		return nil
	})
}

// thin scales the workloads down so that each node keeps its first pods.
func (th *thinned) thin(t *testing.T) {
	t.Helper()
	p, err := observe(t.Context(), th.client)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(p.pods, func(a, b corev1.Pod) int { return cmp.Compare(a.UID, b.UID) }) // in no order
	cpus, all := map[string]int64{}, int64(0)
	for i := range p.nodes {
		cpus[p.nodes[i].Name] = p.nodes[i].Status.Capacity.Cpu().MilliValue()
		all += cpus[p.nodes[i].Name]
	}
	th.replicas = map[string]int{}
	used, kept := map[string]int64{}, int64(0)
	keeps := map[string]bool{}
	for _, first := range []bool{true, false} { // each node keeps one, then some keep more
		for i := range p.pods {
			pod := &p.pods[i]
			node, milli := pod.Spec.NodeName, pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
			more := float64(kept+milli) <= useKept*float64(all) && float64(used[node]+milli) <= useMost*float64(cpus[node])
			if keeps[pod.Name] || first && used[node] > 0 || !first && !more {
				continue
			}
			keeps[pod.Name] = true
			used[node] += milli
			kept += milli
		}
	}
	for i := range p.pods {
		pod := &p.pods[i]
		th.replicas[pod.Labels["app"]] += 0 // also those of which nothing is left
		if keeps[pod.Name] {
			th.replicas[pod.Labels["app"]]++
			continue
		}
		before := pod.DeepCopy()
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, corev1.PodDeletionCost, "-100")
		if err := th.client.Patch(t.Context(), pod, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	for name, pods := range th.replicas {
		scaleWorkload(t, th.client, name, pods)
	}
	th.awaitRunning(t, len(keeps))
	t.Logf("%d nodes, %d in use, with %d pods of %d workloads: %.0f %% of their cpus", len(cpus), len(used), len(keeps), len(th.replicas), 100*float64(kept)/float64(all))
}

// letGo lets consolidation begin.
func (th *thinned) letGo(t *testing.T) {
	t.Helper()
	second := time.Second
	changePool(t, th.client, func(np *karpenterv1.NodePool) {
		np.Spec.Disruption.ConsolidateAfter = karpenterv1.NillableDuration{Duration: &second}
	})
}

// promise is what dovetail simulate --consolidate --spot-to-spot --live says of the cluster as it is.
func (th *thinned) promise(t *testing.T) *simulate.Saving {
	t.Helper()
	types, err := simulate.CatalogNamed("kwok")
	if err != nil {
		t.Fatal(err)
	}
	c, err := simulate.Live(t.Context(), th.client, t.Name(), types, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return simulate.Consolidate(c, consolidate.Options{Terms: consolidate.Terms{SpotToSpot: true}}, simulate.Clock{Now: time.Now, CPU: func() time.Duration { return 0 }})
}

// TestConsolidationKeepsItsPromise lets nodes that are used too little be consolidated
// until nothing happens any more, and compares the price with what was promised for them.
func TestConsolidationKeepsItsPromise(t *testing.T) {
	t.Parallel()
	th := thinCluster(t)
	promised := th.promise(t)
	w := watchEverything(t, th)
	began := time.Now()
	th.letGo(t)
	w.awaitBegun(t, th.patience)
	w.awaitStill(t, th.patience)
	took := time.Since(began) - stillFor
	end := th.promise(t)
	evictions := 0
	for i := range promised.Steps {
		evictions += promised.Steps[i].Evictions
	}
	t.Logf("promised: %.3f $/h instead of %.3f, with %d evictions in %d steps; bound %.3f", promised.AfterHourly, promised.PriceHourly, evictions, len(promised.Steps), promised.BoundHourly)
	t.Logf("it ended at %.3f $/h (%.3f of the promise) after %s", end.PriceHourly, end.PriceHourly/promised.AfterHourly, took.Round(time.Second))
	w.report(t)
	if len(promised.Steps) == 0 {
		t.Error("nothing was promised")
	}
	if w.everShunned() == 0 {
		t.Error("no node had the soft taint before its command began, though the budgets do not allow all commands at once")
	}
	most := promised.AfterHourly * promiseMost
	if os.Getenv(largeEnv) == "" {
		most += promised.PriceHourly / float64(len(promised.Snapshot.Nodes))
	}
	if end.PriceHourly > most {
		t.Errorf("it ended at %.3f $/h, want at most %.3f", end.PriceHourly, most)
	}
}

// TestConsolidationEndsAfterLoadThatPulses has a workload grow and shrink while nodes
// are consolidated. When it stops, so do launches: one more plan may launch nodes, but none
// that the next removes.
func TestConsolidationEndsAfterLoadThatPulses(t *testing.T) {
	t.Parallel()
	th := thinCluster(t)
	createWorkload(t, th.client, pulser, 0, 1000)
	w := watchEverything(t, th)
	th.letGo(t)
	for _, pods := range []int{th.pulse, 0, th.pulse, th.pulse / 3, th.pulse, 1, th.pulse / 2} {
		scaleWorkload(t, th.client, pulser, pods)
		testkit.Eventually(t, th.patience, func() error { return w.runs(pulser, pods) })
	}
	stopped := time.Now()
	before := w.calmDown()
	w.awaitStill(t, th.patience)
	after, last := w.launched()-before, w.lastLaunch()
	end := th.promise(t)
	t.Logf("launches: %d while the load pulsed, %d afterwards, the last %s after it stopped", before, after, max(0, last.Sub(stopped)).Round(time.Second/10))
	t.Logf("it ended at %.3f $/h; bound %.3f; %s after the load stopped nothing happened any more", end.PriceHourly, end.BoundHourly, (time.Since(stopped) - stillFor).Round(time.Second))
	w.report(t)
}
