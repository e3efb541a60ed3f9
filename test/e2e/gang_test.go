package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// gangCPU is what a pod of a gang asks for: there is no room for two on a node of 4 cpu.
const gangCPU = "3"

const latePoolName = "late"

// TestGangs on a cluster whose kube-scheduler knows PodGroups: nothing is bought for a gang of which
// pods are missing, nor for a part of one that the NodePool's limit has no room for; in a cluster
// without nodes a gang gets its nodes; and the nodes of a gang open together, so that all of its pods
// are bound where they were planned.
func TestGangs(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t, "--gangs")
	c := connect(t, cluster)
	installDefinitions(t, c)
	installPool(t, c, 4)
	limitPool(t, c, "8")
	process := controller(t, cluster.Kubeconfig, "--disable-leader-election=true", "--batch-idle-duration", "300ms")

	gang(t, c, "incomplete", 3, 2)
	gang(t, c, "first", 2, 2) // in a cluster without nodes
	awaitGang(t, c, "first", 2)

	limitPool(t, c, "20")
	gang(t, c, "large", 4, 4)
	single(t, c, "control")
	awaitBound(t, c, "control")
	if claims := claimCount(t, c); claims != 3 {
		t.Errorf("%d NodeClaims, want 2 for the first gang and 1 for a pod without a gang", claims)
	}
	testkit.Eventually(t, patience, func() error { return hasEvent(t, c, "large-0", "PodGroup large") })

	limitPool(t, c, "200")
	awaitGang(t, c, "large", 4)
	latePool(t, c)
	gang(t, c, "twelve", 12, 6)
	for i := range 6 {
		gangPod(t, c, "twelve", 6+i, func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{karpenterv1.NodePoolLabelKey: latePoolName}
		})
	}
	awaitGang(t, c, "twelve", 12)
	openedTogether(t, c, "twelve")
	gangPod(t, c, "incomplete", 2)
	awaitGang(t, c, "incomplete", 3)

	if claims := claimCount(t, c); claims != 22 {
		t.Errorf("%d NodeClaims, want one for each of 22 pods", claims)
	}
	landed := map[string]string{}
	for line := range strings.Lines(get(t.Context(), t, process.address("metrics")+"/metrics")) {
		if rest, is := strings.CutPrefix(line, "dovetail_pods_landed_total{outcome="); is {
			outcome, count, _ := strings.Cut(strings.TrimSpace(rest), "} ")
			landed[outcome] = count
		}
	}
	if landed[`"planned"`] != "22" {
		t.Errorf("pods landed: %v, want all 22 where they were planned", landed)
	}

	drift(t, c)
	testkit.Eventually(t, patience, func() error { return hasEvent(t, c, "", "PodGroup default/twelve, which needs 12 of its 12") })
	awaitGang(t, c, "twelve", 12)
	if t.Failed() {
		t.Logf("%s", process)
	}
}

// gang creates a PodGroup and some of its pods.
func gang(t *testing.T, c client.Client, name string, minimum int32, pods int) {
	t.Helper()
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minimum}
	if err := c.Create(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		gangPod(t, c, name, i)
	}
}

func gangPod(t *testing.T, c client.Client, group string, i int, edits ...func(*corev1.Pod)) {
	t.Helper()
	p := podOf(fmt.Sprintf("%s-%d", group, i))
	p.Labels = map[string]string{"gang": group}
	p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	for _, edit := range edits {
		edit(p)
	}
	if err := c.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

func single(t *testing.T, c client.Client, name string) {
	t.Helper()
	p := podOf(name)
	p.Labels = map[string]string{"gang": name}
	if err := c.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

func podOf(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "main", Image: "member",
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(gangCPU)}},
	}}}}
}

func awaitBound(t *testing.T, c client.Client, name string) { t.Helper(); awaitGang(t, c, name, 1) }

// awaitGang waits until so many pods of a gang run.
func awaitGang(t *testing.T, c client.Client, name string, want int) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		var pods corev1.PodList
		if err := c.List(t.Context(), &pods, client.InNamespace("default"), client.MatchingLabels{"gang": name}); err != nil {
			return err
		}
		run := 0
		for i := range pods.Items {
			if pods.Items[i].Status.Phase == corev1.PodRunning {
				run++
			}
		}
		if run != want {
			return fmt.Errorf("%d of %d pods of %s run, want %d", run, len(pods.Items), name, want)
		}
		return nil
	})
}

// openedTogether wants no node of a gang to have been opened before the last one had joined.
func openedTogether(t *testing.T, c client.Client, name string) {
	t.Helper()
	p, err := observe(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	nodes := map[string]bool{}
	for i := range p.pods {
		if p.pods[i].Labels["gang"] == name {
			nodes[p.pods[i].Spec.NodeName] = true
		}
	}
	var joined time.Time
	for i := range p.nodes {
		if n := &p.nodes[i]; nodes[n.Name] && n.CreationTimestamp.After(joined) {
			joined = n.CreationTimestamp.Time
		}
	}
	for i := range p.claims {
		nc := &p.claims[i]
		registered := meta.FindStatusCondition(nc.Status.Conditions, karpenterv1.ConditionTypeRegistered)
		if nodes[nc.Status.NodeName] && (registered == nil || registered.LastTransitionTime.Time.Before(joined)) {
			t.Errorf("node %s was opened at %v, and the last node of its gang joined at %v", nc.Status.NodeName, registered, joined)
		}
	}
}

// latePool creates a NodePool like the one that is there, whose nodes join seconds later.
func latePool(t *testing.T, c client.Client) {
	t.Helper()
	class := &kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: latePoolName}}
	class.Spec.NodeRegistrationDelay = &metav1.Duration{Duration: 3 * time.Second}
	var pools karpenterv1.NodePoolList
	if err := c.List(t.Context(), &pools); err != nil {
		t.Fatal(err)
	}
	np := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: latePoolName}, Spec: pools.Items[0].Spec}
	np.Spec.Weight = new(int32(1)) // the other pool's pods stay with it
	pools.Items[0].Spec.Weight = new(int32(2))
	np.Spec.Template.Spec.NodeClassRef = &karpenterv1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: latePoolName}
	for _, o := range []client.Object{class, np} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Update(t.Context(), &pools.Items[0]); err != nil {
		t.Fatal(err)
	}
}

func limitPool(t *testing.T, c client.Client, cpu string) {
	t.Helper()
	var pools karpenterv1.NodePoolList
	if err := c.List(t.Context(), &pools); err != nil {
		t.Fatal(err)
	}
	for i := range pools.Items {
		np := &pools.Items[i]
		before := client.MergeFrom(np.DeepCopy())
		np.Spec.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
		if err := c.Patch(t.Context(), np, before); err != nil {
			t.Fatal(err)
		}
	}
}

func claimCount(t *testing.T, c client.Client) int {
	t.Helper()
	var claims karpenterv1.NodeClaimList
	if err := c.List(t.Context(), &claims); err != nil {
		t.Fatal(err)
	}
	return len(claims.Items)
}

// drift has all nodes differ from their NodePool.
func drift(t *testing.T, c client.Client) {
	t.Helper()
	var pools karpenterv1.NodePoolList
	if err := c.List(t.Context(), &pools); err != nil {
		t.Fatal(err)
	}
	for i := range pools.Items {
		np := &pools.Items[i]
		np.Spec.Template.Labels = map[string]string{"generation": "two"}
		np.Spec.Disruption.Budgets = []karpenterv1.Budget{{Nodes: "100%"}}
		if err := c.Update(t.Context(), np); err != nil {
			t.Fatal(err)
		}
	}
}

// hasEvent returns an error unless an event has the text, on the pod or, if that is empty, on anything.
func hasEvent(t *testing.T, c client.Client, pod, text string) error {
	t.Helper()
	var events corev1.EventList
	if err := c.List(t.Context(), &events, client.InNamespace("default")); err != nil {
		return err
	}
	for i := range events.Items {
		if e := &events.Items[i]; (pod == "" || e.InvolvedObject.Name == pod) && strings.Contains(e.Message, text) {
			return nil
		}
	}
	return fmt.Errorf("no event on %s says %q; %d events", pod, text, len(events.Items))
}
