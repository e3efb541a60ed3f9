package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/operator"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

const (
	// simPause is how long the simulated cluster goes on after each step.
	simPause = 2 * time.Minute
	// steadyReal is how long a real cluster must be as the simulated one is, within realPatience.
	steadyReal, realPatience = time.Second, 90 * time.Second
	// realTick is how often it is compared.
	realTick = 200 * time.Millisecond
)

// ground is where a script is played. The same steps on the simulated cluster and on a real control plane
// must come to the same.
type ground interface {
	// client reads what is there, and writes.
	client() client.Client
	// boot starts an instance, whose Node may be created then; silent: without a kubelet.
	boot(name string, silent bool)
	// join makes a Node with a kubelet.
	join(n *corev1.Node) error
	// run begins a workload, and scale changes its size.
	run(a *Workload, budget *policyv1.PodDisruptionBudgetSpec) error
	scale(a *Workload, replicas int) error
}

// actor plays one script on one ground, in a part of the cluster that has its own Nodes.
type actor struct {
	ctx    context.Context
	ground ground
	script string
	apps   map[string]*Workload
	noted  map[string]client.Object // kept from earlier steps
}

// step is one thing that is done; its error is part of what is compared.
type step struct {
	what string
	do   func(a *actor) error
}

// name makes a name that no other script has.
func (a *actor) name(s string) string { return a.script + "-" + s }

// spot is the label by which a script's pods keep to its Nodes.
const spotLabel = "script"

// joins returns a step that makes a Node.
func joins(name string, cpus int, zone string, taints ...string) step {
	return step{"node " + name, func(a *actor) error { return a.ground.join(a.node(name, cpus, zone, taints)) }}
}

func (a *actor) node(name string, cpus int, zone string, taints []string) *corev1.Node {
	can := Requests(int64(cpus)*1000, 64<<10)
	can[corev1.ResourcePods] = *intQuantity(110)
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: a.name(name), Labels: map[string]string{
			spotLabel: a.script, corev1.LabelTopologyZone: zone, corev1.LabelHostname: a.name(name),
		}},
		Status: corev1.NodeStatus{
			Capacity: can, Allocatable: can,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}},
		},
	}
	for _, key := range taints {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
	return n
}

// run returns a step that begins a workload of pods of one cpu, unless it says otherwise.
func run(a Workload, budget *policyv1.PodDisruptionBudgetSpec) step {
	return step{fmt.Sprintf("run %d of %s", a.Replicas, a.Name), func(on *actor) error {
		mine := a
		mine.Name = on.name(a.Name)
		if mine.CPUMilli == 0 {
			mine.CPUMilli = 1000
		}
		mine.MemoryMiB, mine.GraceSeconds = 64, max(1, a.GraceSeconds)
		if a.Claim != "" {
			mine.Claim = on.name(a.Claim)
		}
		on.apps[a.Name] = &mine
		if budget != nil {
			budget = budget.DeepCopy()
		}
		return on.ground.run(&mine, budget)
	}}
}

func scale(name string, replicas int) step {
	return step{fmt.Sprintf("scale %s to %d", name, replicas), func(a *actor) error { return a.ground.scale(a.apps[name], replicas) }}
}

// pods returns the pods of a workload, those on a Node if one is named, by name.
func (a *actor) pods(app, node string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := a.ground.client().List(a.ctx, &pods, client.InNamespace(Namespace), client.MatchingLabels{AppLabel: a.name(app)}); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool {
		return p.DeletionTimestamp != nil || node != "" && p.Spec.NodeName != a.name(node)
	}), nil
}

// evict returns a step that evicts so many pods of a workload from a Node at once.
func evict(app, node string, n int) step {
	return step{fmt.Sprintf("evict %d of %s from %q", n, app, node), func(a *actor) error {
		pods, err := a.pods(app, node)
		if err != nil {
			return err
		}
		var all []error
		for i := range n {
			if i >= len(pods) {
				return errors.New("there are not so many pods")
			}
			all = append(all, a.ground.client().SubResource("eviction").Create(a.ctx, &pods[i], &policyv1.Eviction{}))
		}
		return first(all)
	}}
}

// first returns an error of each kind that there is.
func first(all []error) error {
	kinds := map[string]bool{}
	for _, err := range all {
		kinds[reason(err)] = true
	}
	return errors.New(strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
}

// reason returns with what kind of error a write was answered.
func reason(err error) string {
	switch r := apierrors.ReasonForError(err); {
	case err == nil:
		return "ok"
	case r == metav1.StatusReasonUnknown:
		return err.Error()
	default:
		return string(r)
	}
}

// editNode returns a step that changes a Node.
func editNode(what, name string, change func(n *corev1.Node)) step {
	return step{what + " " + name, func(a *actor) error {
		n := &corev1.Node{}
		if err := a.ground.client().Get(a.ctx, client.ObjectKey{Name: a.name(name)}, n); err != nil {
			return err
		}
		before := n.DeepCopy()
		change(n)
		return a.ground.client().Patch(a.ctx, n, client.MergeFrom(before))
	}}
}

func cordon(name string, closed bool) step {
	return editNode(map[bool]string{true: "cordon", false: "uncordon"}[closed], name, func(n *corev1.Node) { n.Spec.Unschedulable = closed })
}

func taint(name, key string, effect corev1.TaintEffect) step {
	return editNode("taint "+key, name, func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: effect}) })
}

// open returns a step that takes a Node's taint away that holds pods off.
func open(name string) step {
	return editNode("open", name, func(n *corev1.Node) {
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == hold })
	})
}

// nominate returns a step that nominates the waiting pods of a workload for a Node.
func nominate(app, node string) step {
	return step{"nominate " + app + " for " + node, func(a *actor) error {
		pods, err := a.pods(app, "")
		if err != nil {
			return err
		}
		for i := range pods {
			before := pods[i].DeepCopy()
			pods[i].Status.NominatedNodeName = a.name(node)
			if err := a.ground.client().Status().Patch(a.ctx, &pods[i], client.MergeFrom(before)); err != nil {
				return err
			}
		}
		return nil
	}}
}

// write returns a step that does something to Nodes as mere objects.
func write(what string, do func(a *actor, c client.Client) error) step {
	return step{what, func(a *actor) error { return do(a, a.ground.client()) }}
}

// state says how things stand, without the names of pods.
func (a *actor) state() ([]string, error) {
	c := a.ground.client()
	var lines []string
	var nodes corev1.NodeList
	if err := c.List(a.ctx, &nodes, client.MatchingLabels{spotLabel: a.script}); err != nil {
		return nil, err
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		lines = append(lines, fmt.Sprintf("node %s%s", n.Name, going(n)))
	}
	count := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(a.apps)) {
		var pods corev1.PodList
		if err := c.List(a.ctx, &pods, client.InNamespace(Namespace), client.MatchingLabels{AppLabel: a.name(name)}); err != nil {
			return nil, err
		}
		for i := range pods.Items {
			p := &pods.Items[i]
			count[fmt.Sprintf("%s on %q %s%s", name, p.Spec.NodeName, p.Status.Phase, going(p))]++
		}
		b := &policyv1.PodDisruptionBudget{}
		err := c.Get(a.ctx, client.ObjectKey{Namespace: Namespace, Name: a.name(name)}, b)
		if err == nil {
			s := &b.Status
			lines = append(lines, fmt.Sprintf("budget %s: %d healthy, %d wanted of %d, %d may go", name, s.CurrentHealthy, s.DesiredHealthy, s.ExpectedPods, s.DisruptionsAllowed))
		} else if !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	for _, what := range slices.Sorted(maps.Keys(count)) {
		lines = append(lines, fmt.Sprintf("%d %s", count[what], what))
	}
	return lines, nil
}

func going(o client.Object) string {
	if o.GetDeletionTimestamp() != nil {
		return " going"
	}
	return ""
}

// TestTheClusterIsLikeTheRealOne plays scripts on the simulated cluster and on a real control plane: the same
// pods must land on the same Nodes, and the same writes be answered in the same way.
func TestTheClusterIsLikeTheRealOne(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c, err := client.New(cluster.Config, client.Options{Scheme: operator.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, realPatience, func() error { // pods need it
		return c.Get(t.Context(), client.ObjectKey{Namespace: Namespace, Name: "default"}, &corev1.ServiceAccount{})
	})
	// All at once: they wait for most of the time.
	var playing sync.WaitGroup
	for name, steps := range scripts() {
		playing.Go(func() {
			if diff := playBoth(t.Context(), name, steps, c); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		})
	}
	playing.Wait()
}

// playBoth plays a script on both grounds, and returns where they differ first; empty: nowhere.
func playBoth(ctx context.Context, script string, steps []step, c client.Client) string {
	w := newSimGround()
	imagined, real := newActor(ctx, script, w), newActor(ctx, script, &realGround{ctx: ctx, c: c, script: script})
	for i, s := range steps {
		want := []string{s.what + ": " + reason(s.do(imagined))}
		w.goOn(simPause)
		seen, err := imagined.state()
		if err != nil {
			return err.Error()
		}
		answer := s.what + ": " + reason(s.do(real))
		if diff := compare(real, append(want, seen...), answer); diff != "" {
			return fmt.Sprintf("after step %d, -simulated +real:\n%s", i+1, diff)
		}
	}
	return ""
}

func newActor(ctx context.Context, script string, g ground) *actor {
	return &actor{ctx: ctx, ground: g, script: script, apps: map[string]*Workload{}, noted: map[string]client.Object{}}
}

// compare returns how the real cluster differs from the simulated one for good; empty: it does not.
func compare(real *actor, want []string, answer string) string {
	tick := time.NewTicker(realTick)
	defer tick.Stop()
	waited, same := time.Duration(0), time.Duration(0)
	for {
		seen, err := real.state()
		if err != nil {
			return err.Error()
		}
		diff := cmp.Diff(want, append([]string{answer}, seen...))
		switch {
		case diff != "":
			same = 0
			if want[0] != answer || waited > realPatience {
				return diff
			}
		case same > steadyReal:
			return ""
		}
		<-tick.C
		waited, same = waited+realTick, same+realTick
	}
}

// simGround is a simulated cluster without faults.
type simGround struct {
	cluster   *Cluster
	c         *Client
	at        time.Time
	due       []timer                  // in the order in which they fire
	instances map[string]InstanceState // by Node
}

// timer is something that is done at a time.
type timer struct {
	at time.Time
	do func()
}

func newSimGround() *simGround {
	g := &simGround{at: time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC), instances: map[string]InstanceState{}}
	rng := rand.New(rand.NewPCG(1, 1))
	g.cluster = New(&Config{Clock: g, Instances: g, Between: func(least, most time.Duration) time.Duration {
		return least + time.Duration(rng.Int64N(int64(max(1, most-least))))
	}})
	g.cluster.Start()
	reader := Reader{Shelf: g.cluster.API.Shelf, Check: func() error { return nil }}
	g.c = NewClient(g.cluster.API, reader, operator.Scheme(), &ClientHooks{
		Write: func(_ context.Context, _ string, _ client.Object, effect func() error) error { return effect() },
	})
	return g
}

// Now, After and State are the cluster's Clock and Instances.
func (g *simGround) Now() time.Time { return g.at }

func (g *simGround) After(pause time.Duration, do func()) {
	at := g.at.Add(pause)
	i := slices.IndexFunc(g.due, func(t timer) bool { return t.at.After(at) })
	if i < 0 {
		i = len(g.due)
	}
	g.due = slices.Insert(g.due, i, timer{at, do})
}

func (g *simGround) State(node string) (InstanceState, bool) {
	i, ok := g.instances[node]
	return i, ok
}

// goOn has the cluster go on for a while.
func (g *simGround) goOn(d time.Duration) {
	until := g.at.Add(d)
	for len(g.due) > 0 && !g.due[0].at.After(until) {
		t := g.due[0]
		g.due = g.due[1:]
		g.at = t.at
		t.do()
	}
	g.at = until
}

func (g *simGround) client() client.Client { return g.c }

func (g *simGround) boot(name string, silent bool) {
	i := InstanceState{Up: !silent}
	if silent {
		i.SilentSince = g.at.Add(24 * time.Hour) // nobody has missed it yet
	}
	g.instances[name] = i
}

func (g *simGround) join(n *corev1.Node) error {
	g.boot(n.Name, false)
	return g.cluster.API.Create(n)
}

func (g *simGround) run(a *Workload, budget *policyv1.PodDisruptionBudgetSpec) error {
	g.cluster.Workloads.Add(a, budget)
	return nil
}

func (g *simGround) scale(a *Workload, replicas int) error {
	a.Replicas = replicas
	g.cluster.Workloads.Wake(a)
	return nil
}

// realGround is a part of a real cluster.
type realGround struct {
	ctx    context.Context
	c      client.Client
	script string
}

func (g *realGround) client() client.Client { return g.c }

func (g *realGround) boot(string, bool) {}

func (g *realGround) join(n *corev1.Node) error {
	const played = "kwok.x-k8s.io/node"
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, played, "fake")
	metav1.SetMetaDataLabel(&n.ObjectMeta, played, "fake")
	return g.c.Create(g.ctx, n)
}

func (g *realGround) run(a *Workload, budget *policyv1.PodDisruptionBudgetSpec) error {
	labels := map[string]string{AppLabel: a.Name}
	if budget != nil {
		budget.Selector = &metav1.LabelSelector{MatchLabels: labels}
		if err := g.c.Create(g.ctx, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: a.Name}, Spec: *budget}); err != nil {
			return err
		}
	}
	meta := metav1.ObjectMeta{Namespace: Namespace, Name: a.Name}
	a.owner = &appsv1.ReplicaSet{}
	spec := a.pod(0).Spec
	if a.Priority > leastPriority { // which admission writes
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: a.Name}, Value: a.Priority}
		if err := g.c.Create(g.ctx, class); err != nil {
			return err
		}
		spec.Priority, spec.PriorityClassName = nil, class.Name
	}
	if spec.NodeSelector == nil {
		spec.NodeSelector = map[string]string{}
	}
	spec.NodeSelector[spotLabel] = g.script
	replicas, selector := int32(a.Replicas), &metav1.LabelSelector{MatchLabels: labels}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}
	if a.Stateful {
		template.Spec.Volumes = nil // their volumes would have to be made
		return g.c.Create(g.ctx, &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, Selector: selector, Template: template, PodManagementPolicy: appsv1.ParallelPodManagement,
		}})
	}
	return g.c.Create(g.ctx, &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: selector, Template: template}})
}

func (g *realGround) scale(a *Workload, replicas int) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"replicas": replicas}})
	if err != nil {
		return err
	}
	var set client.Object = &appsv1.ReplicaSet{}
	if a.Stateful {
		set = &appsv1.StatefulSet{}
	}
	set.SetNamespace(Namespace)
	set.SetName(a.Name)
	return g.c.Patch(g.ctx, set, client.RawPatch("application/merge-patch+json", patch))
}
