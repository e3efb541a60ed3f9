package e2e

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestLegacyRepair demands what Karpenter 1.14's suite does, with the setting legacy-node-repair: a node
// that has not been ready for longer than the provider tolerates is removed, whatever the budgets, the
// annotation do-not-disrupt of the Node and of its pod, and terminationGracePeriod say, and though its
// kubelet, which is well, says that it is ready within a second.
func TestLegacyRepair(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status corev1.ConditionStatus
		pool   func(*karpenterv1.NodePool)
		node   map[string]string // annotations
	}{
		"Ready is False":              {status: corev1.ConditionFalse},
		"Ready is Unknown":            {status: corev1.ConditionUnknown},
		"budgets allow nothing":       {status: corev1.ConditionFalse, pool: func(np *karpenterv1.NodePool) { np.Spec.Disruption.Budgets = []karpenterv1.Budget{{Nodes: "0"}} }},
		"the node has do-not-disrupt": {status: corev1.ConditionFalse, node: map[string]string{karpenterv1.DoNotDisruptAnnotationKey: "true"}},
		"a terminationGracePeriod of one hour": {status: corev1.ConditionFalse, pool: func(np *karpenterv1.NodePool) {
			np.Spec.Template.Spec.TerminationGracePeriod = &karpenterv1.Duration{Duration: time.Hour}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := testkit.StartCluster(t)
			c := connect(t, cluster)
			installDefinitions(t, c)
			installPool(t, c, 4)
			if test.pool != nil {
				changePool(t, c, test.pool)
			}
			p := controller(t, cluster.Kubeconfig, "--disable-leader-election=true", "--batch-idle-duration", "300ms", "--feature-gates", "NodeRepair=true", "--legacy-node-repair")
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("%s", p)
				}
			})
			deployHeld(t, c)
			awaitRunning(t, c, 1)
			testkit.Eventually(t, patience, func() error { return initialized(t.Context(), c, 1) })
			before, err := observe(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			node, pod := &before.nodes[0], &before.pods[0]
			annotate(t, c, node, test.node)
			notReady(t, c, node, test.status)
			testkit.Eventually(t, patience, func() error {
				for _, gone := range []client.Object{pod, node} {
					var o client.Object = &corev1.Pod{}
					if gone == client.Object(node) {
						o = &corev1.Node{}
					}
					err := c.Get(t.Context(), client.ObjectKeyFromObject(gone), o)
					if err == nil && o.GetUID() == gone.GetUID() {
						return fmt.Errorf("%s is still there", gone.GetName())
					}
					if client.IgnoreNotFound(err) != nil {
						return err
					}
				}
				return nil
			})
			awaitRunning(t, c, 1)
		})
	}
}

// deployHeld deploys one pod that must not be disrupted, and ends at once.
func deployHeld(t *testing.T, c client.Client) {
	t.Helper()
	deployWeb(t, c, func(d *appsv1.Deployment) {
		d.Spec.Replicas = new(int32(1))
		d.Spec.Template.Annotations = map[string]string{karpenterv1.DoNotDisruptAnnotationKey: karpenterv1.LabelValueTrue}
	})
}

// deployWeb makes the Deployment of the example, changed, by one write: no pod is made of another template. Its pods
// end at once.
func deployWeb(t *testing.T, c client.Client, change func(d *appsv1.Deployment)) {
	t.Helper()
	for _, o := range exampleObjects(t) {
		if o.GetKind() != "Deployment" {
			continue
		}
		d := &appsv1.Deployment{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, d); err != nil {
			t.Fatal(err)
		}
		d.Namespace = metav1.NamespaceDefault
		d.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(0))
		change(d)
		if err := c.Create(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
}

func annotate(t *testing.T, c client.Client, node *corev1.Node, annotations map[string]string) {
	t.Helper()
	before := node.DeepCopy()
	for key, value := range annotations {
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, key, value)
	}
	if err := c.Patch(t.Context(), node, client.StrategicMergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// notReady has the Node say that it has not been ready for 31 minutes, until its kubelet says
// otherwise.
func notReady(t *testing.T, c client.Client, node *corev1.Node, status corev1.ConditionStatus) {
	t.Helper()
	before := node.DeepCopy()
	for i := range node.Status.Conditions {
		if ready := &node.Status.Conditions[i]; ready.Type == corev1.NodeReady {
			ready.Status, ready.LastTransitionTime = status, metav1.NewTime(time.Now().Add(-31*time.Minute))
		}
	}
	if err := c.Status().Patch(t.Context(), node, client.StrategicMergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

var notReadyToo = flag.Bool("not-ready", false, "TestRepair also waits for nodes that are not ready, which are tolerated for ten minutes")

// TestRepair demands what Karpenter 1.15's suite does of node repair: a pool has five nodes with a pod
// each, one or two of them have a bad condition since a day, and what is demanded follows from the
// Node's, the pool's and the pods' say. Then a static pool at its limit is repaired, and drifts, with
// terminate-first. Where nothing may happen, the event that says why is awaited instead of a minute.
func TestRepair(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	installDefinitions(t, c)
	installPool(t, c, 4)
	changePool(t, c, func(np *karpenterv1.NodePool) {
		np.Spec.Disruption.ConsolidateAfter = karpenterv1.NillableDuration{}
		np.Spec.Template.Spec.TerminationGracePeriod = &karpenterv1.Duration{Duration: time.Minute}
	})
	process := controller(t, cluster.Kubeconfig, "--disable-leader-election=true", "--batch-idle-duration", "300ms",
		"--feature-gates", "NodeRepair=true,StaticCapacity=true,TerminateFirstRepair=true,TerminateFirstDrift=true")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", process)
		}
	})
	w := &ward{T: t, client: c}
	w.fill()
	for _, act := range []struct {
		name string
		play func()
	}{
		{"replacement first", w.replacementFirst},
		{"outage", w.outage},
		{"do-not-repair", w.veto},
		{"budget", w.budget},
		{"do-not-disrupt of the node", w.doNotDisrupt},
		{"blocked drain", w.blockedDrain},
		{"not ready", w.notReady},
		{"terminate first", w.terminateFirst},
	} {
		act.play()
		if t.Failed() {
			t.Fatalf("in %s", act.name)
		}
	}
}

const (
	wardNodes = 5
	// kwokToleration is how long a node may have one of the conditions that are KWOK's alone.
	kwokToleration = 30 * time.Second
)

// ward is the pool whose nodes get ill.
type ward struct {
	*testing.T
	client client.Client
}

// fill deploys five pods that want a node each, and end at once.
func (w *ward) fill() {
	w.Helper()
	deployWeb(w.T, w.client, func(d *appsv1.Deployment) {
		d.Spec.Replicas = new(int32(wardNodes))
		d.Spec.Template.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{LabelSelector: d.Spec.Selector, TopologyKey: corev1.LabelHostname}},
		}}
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	})
	w.well()
}

// well returns when all five nodes are healthy, and a pod runs on each.
func (w *ward) well() {
	w.Helper()
	awaitRunning(w.T, w.client, wardNodes)
	testkit.Eventually(w, 2*patience, func() error { return initialized(w.Context(), w.client, wardNodes) })
}

func (w *ward) picture() *picture {
	w.Helper()
	p, err := observe(w.Context(), w.client)
	if err != nil {
		w.Fatal(err)
	}
	return p
}

// oldest returns the n nodes that are there for longest.
func (w *ward) oldest(n int) []*corev1.Node {
	w.Helper()
	nodes := w.picture().nodes
	slices.SortFunc(nodes, func(a, b corev1.Node) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	var oldest []*corev1.Node
	for i := range n {
		oldest = append(oldest, &nodes[i])
	}
	return oldest
}

// ail gives a node the condition that KWOK's policies are about, since a day.
func (w *ward) ail(node *corev1.Node, status corev1.ConditionStatus) {
	w.Helper()
	w.condition(node, "KWOKUnhealthy", status)
}

// condition gives a node a condition, since a day.
func (w *ward) condition(node *corev1.Node, conditionType corev1.NodeConditionType, status corev1.ConditionStatus) {
	w.Helper()
	w.conditionSince(node, conditionType, status, time.Now().Add(-24*time.Hour))
}

// conditionSince gives a node a condition since a time.
func (w *ward) conditionSince(node *corev1.Node, conditionType corev1.NodeConditionType, status corev1.ConditionStatus, since time.Time) {
	w.Helper()
	before := node.DeepCopy()
	node.Status.Conditions = append(slices.DeleteFunc(slices.Clone(node.Status.Conditions), func(c corev1.NodeCondition) bool { return c.Type == conditionType }),
		corev1.NodeCondition{Type: conditionType, Status: status, Reason: "E2ETest", LastTransitionTime: metav1.NewTime(since)})
	if err := w.client.Status().Patch(w.Context(), node, client.StrategicMergeFrom(before)); err != nil {
		w.Fatal(err)
	}
}

// said returns when an object has an event of that reason with these words.
func (w *ward) said(object client.Object, reason, words string) {
	w.Helper()
	said(w.T, w.client, object.GetName(), reason, words)
}

// said returns when the object of that name has an event of that reason with these words.
func said(t *testing.T, c client.Client, name, reason, words string) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		var events corev1.EventList
		if err := c.List(t.Context(), &events); err != nil {
			return err
		}
		for i := range events.Items {
			if e := &events.Items[i]; e.InvolvedObject.Name == name && e.Reason == reason && strings.Contains(e.Message, words) {
				return nil
			}
		}
		return fmt.Errorf("no event %s on %s with %q", reason, name, words)
	})
}

// untouched fails unless nothing is disrupted.
func (w *ward) untouched() {
	w.Helper()
	if err := initialized(w.Context(), w.client, wardNodes); err != nil {
		w.Errorf("a node is disrupted: %v", err)
	}
}

// gone returns when a node is gone, and the others are as many as before.
func (w *ward) gone(node *corev1.Node) {
	w.Helper()
	testkit.Eventually(w, 2*patience, func() error {
		err := w.client.Get(w.Context(), client.ObjectKeyFromObject(node), &corev1.Node{})
		if err == nil {
			return fmt.Errorf("node %s is still there", node.Name)
		}
		return client.IgnoreNotFound(err)
	})
	w.well()
}

// claimOf returns the claim of a node.
func (w *ward) claimOf(node *corev1.Node) *karpenterv1.NodeClaim {
	w.Helper()
	p := w.picture()
	for i := range p.claims {
		if p.claims[i].Status.NodeName == node.Name {
			return &p.claims[i]
		}
	}
	w.Fatalf("node %s has no claim", node.Name)
	return nil
}

// replacementFirst: at some moment a sixth node is initialized while the ill one is not deleted.
func (w *ward) replacementFirst() {
	ill := w.oldest(1)[0]
	w.ail(ill, corev1.ConditionTrue)
	testkit.Eventually(w, patience, func() error {
		p, err := observe(w.Context(), w.client)
		if err != nil {
			return err
		}
		ready := 0
		for i := range p.claims {
			nc := &p.claims[i]
			if nc.Status.NodeName == ill.Name && nc.DeletionTimestamp != nil {
				w.Fatalf("%s goes with %d nodes there", ill.Name, ready)
			}
			if meta.IsStatusConditionTrue(nc.Status.Conditions, karpenterv1.ConditionTypeInitialized) {
				ready++
			}
		}
		if ready <= wardNodes {
			return fmt.Errorf("%d claims are initialized", ready)
		}
		return nil
	})
	w.gone(ill)
}

// outage: of five nodes two are ill, and none is repaired until one of them is well.
func (w *ward) outage() {
	ill := w.oldest(2)
	// Both are ill for long enough at the same moment: one alone would be repaired at once.
	since := time.Now().Add(10*time.Second - kwokToleration)
	for _, node := range ill {
		w.conditionSince(node, "KWOKUnhealthy", corev1.ConditionTrue, since)
	}
	pool := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}
	for _, o := range []client.Object{ill[1], w.claimOf(ill[1]), pool} {
		w.said(o, "NodeRepairBlocked", "2 of the 5 nodes")
	}
	if err := w.client.Get(w.Context(), client.ObjectKeyFromObject(ill[1]), ill[1]); err != nil {
		w.Fatal(err)
	}
	w.ail(ill[1], corev1.ConditionFalse)
	w.gone(ill[0])
	if err := w.client.Get(w.Context(), client.ObjectKeyFromObject(ill[1]), ill[1]); err != nil {
		w.Errorf("the node that was well again: %v", err)
	}
}

func (w *ward) veto() {
	ill := w.oldest(1)[0]
	annotate(w.T, w.client, ill, map[string]string{"karpenter.sh/do-not-repair": "true"})
	w.ail(ill, corev1.ConditionTrue)
	w.said(ill, "DisruptionBlocked", "do-not-repair")
	w.untouched()
	annotate(w.T, w.client, ill, map[string]string{"karpenter.sh/do-not-repair": "false"})
	w.gone(ill)
}

func (w *ward) budget() {
	nodes := func(n string) {
		changePool(w.T, w.client, func(np *karpenterv1.NodePool) { np.Spec.Disruption.Budgets = []karpenterv1.Budget{{Nodes: n}} })
	}
	nodes("0")
	ill := w.oldest(1)[0]
	w.ail(ill, corev1.ConditionTrue)
	w.said(&karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}, "DisruptionBlocked", "Unhealthy")
	w.untouched()
	nodes("100%")
	w.gone(ill)
}

func (w *ward) doNotDisrupt() {
	ill := w.oldest(1)[0]
	annotate(w.T, w.client, ill, map[string]string{karpenterv1.DoNotDisruptAnnotationKey: karpenterv1.LabelValueTrue})
	w.ail(ill, corev1.ConditionTrue)
	w.gone(ill)
}

// blockedDrain: the pods must not be disrupted, so the node, tainted, keeps its pod until its drain has
// taken 45 s, which the repair policy allows, not the minute of the pool.
func (w *ward) blockedDrain() {
	w.hold(true)
	ill := w.oldest(1)[0]
	claim := w.claimOf(ill)
	w.ail(ill, corev1.ConditionTrue)
	testkit.Eventually(w, patience, func() error {
		if err := w.client.Get(w.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if claim.DeletionTimestamp == nil {
			return errors.New("it is not deleted yet")
		}
		return nil
	})
	deadline, err := time.Parse(time.RFC3339, claim.Annotations[karpenterv1.NodeClaimTerminationTimestampAnnotationKey])
	if took := deadline.Sub(claim.DeletionTimestamp.Time); err != nil || took < 43*time.Second || took > 46*time.Second {
		w.Errorf("the drain may take %s (%v), want 45s", took, err)
	}
	if err := w.client.Get(w.Context(), client.ObjectKeyFromObject(ill), ill); err != nil {
		w.Fatal(err)
	}
	if !slices.ContainsFunc(ill.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpenterv1.DisruptedTaintKey }) {
		w.Errorf("the node has taints %v", ill.Spec.Taints)
	}
	w.gone(ill)
	w.hold(false)
}

// hold protects all pods that are there, or no longer.
func (w *ward) hold(held bool) {
	w.Helper()
	pods := w.picture().pods
	for i := range pods {
		before := pods[i].DeepCopy()
		metav1.SetMetaDataAnnotation(&pods[i].ObjectMeta, karpenterv1.DoNotDisruptAnnotationKey, fmt.Sprint(held))
		if err := w.client.Patch(w.Context(), &pods[i], client.MergeFrom(before)); err != nil {
			w.Fatal(err)
		}
	}
}

// notReady: a node that is not ready, or of which nobody knows, is drained by force at once.
func (w *ward) notReady() {
	for _, status := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionUnknown} {
		if !*notReadyToo {
			return
		}
		w.hold(true)
		ill := w.oldest(1)[0]
		before := ill.DeepCopy()
		metav1.SetMetaDataLabel(&ill.ObjectMeta, "kwok.x-k8s.io/stage", "unhealthy")
		if err := w.client.Patch(w.Context(), ill, client.MergeFrom(before)); err != nil {
			w.Fatal(err)
		}
		notReady(w.T, w.client, ill, status)
		claim := w.claimOf(ill)
		testkit.Eventually(w, 12*time.Minute, func() error {
			err := w.client.Get(w.Context(), client.ObjectKeyFromObject(claim), claim)
			if err == nil && claim.DeletionTimestamp == nil {
				return fmt.Errorf("node %s stays", ill.Name)
			}
			return client.IgnoreNotFound(err)
		})
		w.gone(ill)
		w.hold(false)
	}
}

// terminateFirst: a static pool of one node that may have no other beside it. The node goes first, for
// repair and for drift, and while a finalizer holds it there is no other.
func (w *ward) terminateFirst() {
	pool := &karpenterv1.NodePool{}
	if err := w.client.Get(w.Context(), client.ObjectKey{Name: "general"}, pool); err != nil {
		w.Fatal(err)
	}
	fixed := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: staticName}, Spec: pool.Spec}
	fixed.Spec.Replicas = new(int64(1))
	fixed.Spec.Limits = corev1.ResourceList{"nodes": resource.MustParse("1")}
	fixed.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "fixed", Effect: corev1.TaintEffectNoSchedule}}
	if err := w.client.Create(w.Context(), fixed); err != nil {
		w.Fatal(err)
	}
	w.replaced(func(node *corev1.Node) { w.ail(node, corev1.ConditionTrue) })
	w.replaced(func(*corev1.Node) {
		s := &staticPool{client: w.client}
		s.edit(w.T, func(np *karpenterv1.NodePool) { np.Spec.Template.Annotations = map[string]string{"generation": "two"} })
	})
}

// fixed returns the one node of the static pool and its claim, when it is initialized.
func (w *ward) fixed() (node *corev1.Node, claim *karpenterv1.NodeClaim) {
	w.Helper()
	testkit.Eventually(w, patience, func() error {
		var claims karpenterv1.NodeClaimList
		if err := w.client.List(w.Context(), &claims, client.MatchingLabels{karpenterv1.NodePoolLabelKey: staticName}); err != nil {
			return err
		}
		if len(claims.Items) != 1 || claims.Items[0].DeletionTimestamp != nil ||
			!meta.IsStatusConditionTrue(claims.Items[0].Status.Conditions, karpenterv1.ConditionTypeInitialized) {
			return fmt.Errorf("%d claims of the static pool, want one that is initialized and stays", len(claims.Items))
		}
		claim, node = &claims.Items[0], &corev1.Node{}
		return w.client.Get(w.Context(), client.ObjectKey{Name: claim.Status.NodeName}, node)
	})
	return node, claim
}

// replaced has the node of the static pool replaced by doing something to it.
func (w *ward) replaced(by func(*corev1.Node)) {
	w.Helper()
	const held = "dovetail.test/held"
	node, claim := w.fixed()
	s := &staticPool{client: w.client}
	s.watch(w.T, 1)
	before := node.DeepCopy()
	controllerutil.AddFinalizer(node, held)
	if err := w.client.Patch(w.Context(), node, client.MergeFrom(before)); err != nil {
		w.Fatal(err)
	}
	by(node)
	testkit.Eventually(w, patience, func() error {
		for _, o := range []client.Object{claim, node} {
			if err := w.client.Get(w.Context(), client.ObjectKeyFromObject(o), o); err != nil {
				return err
			}
			if o.GetDeletionTimestamp() == nil {
				return fmt.Errorf("%s does not go", o.GetName())
			}
		}
		if controllerutil.ContainsFinalizer(node, karpenterv1.TerminationFinalizer) {
			return fmt.Errorf("node %s is not drained yet", node.Name)
		}
		return nil
	})
	before = node.DeepCopy()
	controllerutil.RemoveFinalizer(node, held)
	if err := w.client.Patch(w.Context(), node, client.MergeFrom(before)); err != nil {
		w.Fatal(err)
	}
	testkit.Eventually(w, patience, func() error {
		err := w.client.Get(w.Context(), client.ObjectKeyFromObject(claim), &karpenterv1.NodeClaim{})
		if err == nil {
			return fmt.Errorf("claim %s is still there", claim.Name)
		}
		return client.IgnoreNotFound(err)
	})
	if _, now := w.fixed(); now.UID == claim.UID {
		w.Errorf("the claim is still %s", claim.Name)
	}
}
