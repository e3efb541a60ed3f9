package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// bufferCPUs is the largest node: it holds one chunk of bufferChunk.
const bufferCPUs, bufferChunk = 2, "1500m"

// TestCapacityBuffer follows buffers from their status to the room that is kept for them: pods take
// it, it is refilled, limits bound it, drift replaces it, a crash loses none, and it goes with them.
func TestCapacityBuffer(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	installDefinitions(t, c)
	installPool(t, c, bufferCPUs)
	b := &bufferTest{client: c}
	b.editPool(t, func(np *karpenterv1.NodePool) { np.Spec.Disruption.Budgets = []karpenterv1.Budget{{Nodes: "100%"}} })
	args := []string{"--disable-leader-election=true", "--batch-idle-duration", "300ms", "--feature-gates", "CapacityBuffer=true"}
	process := controller(t, cluster.Kubeconfig, args...)
	b.template(t, "template", nil)
	b.statuses(t)

	b.create(t, "room", autoscalingv1beta1.CapacityBufferSpec{PodTemplateRef: &autoscalingv1beta1.LocalObjectRef{Name: "template"}, Replicas: new(int32(3))})
	b.says(t, "room", 3, "FitsExistingCapacity")
	b.hasNodes(t, 3)
	b.isHeld(t)

	deploy(t, c, 2) // pods of 1 cpu: they are bound where the room is, and it is bought again
	awaitRunning(t, c, 2)
	b.hasNodes(t, 5)
	b.says(t, "room", 3, "FitsExistingCapacity")

	before := b.claims(t)
	process.kill()
	process = controller(t, cluster.Kubeconfig, args...)
	b.edit(t, "room", func(cb *autoscalingv1beta1.CapacityBuffer) { cb.Spec.Replicas = new(int32(4)) })
	b.says(t, "room", 4, "FitsExistingCapacity")
	b.hasNodes(t, 6)
	for uid := range before {
		if !b.claims(t)[uid] {
			t.Error("a NodeClaim of before the crash is gone")
		}
	}

	b.create(t, "share", autoscalingv1beta1.CapacityBufferSpec{ScalableRef: &autoscalingv1beta1.ScalableRef{Kind: "Deployment", Name: "web"}, Percentage: new(int32(25))})
	b.says(t, "share", 1, "")
	deploy(t, c, 5)
	awaitRunning(t, c, 5)
	b.says(t, "share", 2, "FitsExistingCapacity")
	b.delete(t, "share")

	b.driftAll(t)
	b.says(t, "room", 4, "FitsExistingCapacity")

	b.removePods(t)
	b.hasNodes(t, 4)
	b.delete(t, "room")
	b.hasNodes(t, 0)

	b.editPool(t, func(np *karpenterv1.NodePool) { np.Spec.Limits = corev1.ResourceList{"cpu": resource.MustParse("4")} })
	b.create(t, "limited", autoscalingv1beta1.CapacityBufferSpec{PodTemplateRef: &autoscalingv1beta1.LocalObjectRef{Name: "template"}, Replicas: new(int32(5))})
	b.says(t, "limited", 5, "RequiresNewCapacity")
	b.hasNodes(t, 2)
	if says := b.condition(t, "limited", autoscalingv1beta1.ConditionTypeProvisioning); !strings.Contains(says.Message, "limit of 4 cpu") {
		t.Errorf("the buffer at the limit says %q", says.Message)
	}
	b.delete(t, "limited")
	b.hasNodes(t, 0)

	b.template(t, "apart", &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
		TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"buffer": "apart"}},
	}}}})
	b.create(t, "apart", autoscalingv1beta1.CapacityBufferSpec{PodTemplateRef: &autoscalingv1beta1.LocalObjectRef{Name: "apart"}, Replicas: new(int32(2))})
	b.says(t, "apart", 2, "FitsExistingCapacity")
	b.hasNodes(t, 2)
	b.delete(t, "apart")
	b.hasNodes(t, 0)
	if t.Failed() {
		t.Logf("%s", process)
	}
}

type bufferTest struct{ client client.Client }

// statuses creates buffers about which there is nothing to plan, and awaits what they say.
func (b *bufferTest) statuses(t *testing.T) {
	t.Helper()
	template := &autoscalingv1beta1.LocalObjectRef{Name: "template"}
	for name, test := range map[string]struct {
		spec                autoscalingv1beta1.CapacityBufferSpec
		ready, provisioning string
	}{
		"no-template":  {autoscalingv1beta1.CapacityBufferSpec{PodTemplateRef: &autoscalingv1beta1.LocalObjectRef{Name: "none"}, Replicas: new(int32(1))}, "PodTemplateNotFound", "NotReadyForProvisioning"},
		"no-workload":  {autoscalingv1beta1.CapacityBufferSpec{ScalableRef: &autoscalingv1beta1.ScalableRef{Kind: "Deployment", Name: "none"}, Replicas: new(int32(1))}, "ScalableRefNotFound", "NotReadyForProvisioning"},
		"no-such-kind": {autoscalingv1beta1.CapacityBufferSpec{ScalableRef: &autoscalingv1beta1.ScalableRef{APIGroup: "batch", Kind: "Job", Name: "none"}, Replicas: new(int32(1))}, "ResolutionFailed", "NotReadyForProvisioning"},
		"nothing":      {autoscalingv1beta1.CapacityBufferSpec{Replicas: new(int32(1))}, "ResolutionFailed", "NotReadyForProvisioning"},
		"empty":        {autoscalingv1beta1.CapacityBufferSpec{PodTemplateRef: template, Replicas: new(int32(0))}, "Resolved", "BufferEmpty"},
		"small-limit":  {autoscalingv1beta1.CapacityBufferSpec{PodTemplateRef: template, Limits: corev1.ResourceList{"cpu": resource.MustParse("1")}}, "Resolved", "BufferEmpty"},
	} {
		b.create(t, name, test.spec)
		testkit.Eventually(t, patience, func() error {
			ready, provisioning := b.condition(t, name, autoscalingv1beta1.ConditionTypeReadyForProvisioning), b.condition(t, name, autoscalingv1beta1.ConditionTypeProvisioning)
			if ready.Reason != test.ready || provisioning.Reason != test.provisioning {
				return fmt.Errorf("%s says %s and %s, want %s and %s", name, ready.Reason, provisioning.Reason, test.ready, test.provisioning)
			}
			return nil
		})
		b.delete(t, name)
	}
	b.hasNodes(t, 0)
}

func (b *bufferTest) template(t *testing.T, name string, affinity *corev1.Affinity) {
	t.Helper()
	noError(t, b.client.Create(t.Context(), &corev1.PodTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"buffer": name}},
			Spec: corev1.PodSpec{Affinity: affinity, Containers: []corev1.Container{{
				Name: "main", Image: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(bufferChunk)}},
			}}},
		},
	}))
}

func (b *bufferTest) create(t *testing.T, name string, spec autoscalingv1beta1.CapacityBufferSpec) {
	t.Helper()
	noError(t, b.client.Create(t.Context(), &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: spec}))
}

func (b *bufferTest) delete(t *testing.T, name string) {
	t.Helper()
	noError(t, b.client.Delete(t.Context(), &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}))
}

func (b *bufferTest) get(t *testing.T, name string) *autoscalingv1beta1.CapacityBuffer {
	t.Helper()
	var cb autoscalingv1beta1.CapacityBuffer
	noError(t, b.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, &cb))
	return &cb
}

func (b *bufferTest) edit(t *testing.T, name string, change func(*autoscalingv1beta1.CapacityBuffer)) {
	t.Helper()
	cb := b.get(t, name)
	before := cb.DeepCopy()
	change(cb)
	noError(t, b.client.Patch(t.Context(), cb, client.MergeFrom(before)))
}

func (b *bufferTest) editPool(t *testing.T, change func(*karpenterv1.NodePool)) {
	t.Helper()
	var np karpenterv1.NodePool
	noError(t, b.client.Get(t.Context(), client.ObjectKey{Name: "general"}, &np))
	before := np.DeepCopy()
	change(&np)
	noError(t, b.client.Patch(t.Context(), &np, client.MergeFrom(before)))
}

func (b *bufferTest) condition(t *testing.T, name, conditionType string) metav1.Condition {
	t.Helper()
	if c := meta.FindStatusCondition(b.get(t, name).Status.Conditions, conditionType); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// says awaits that a buffer has a number of chunks, and the condition Provisioning a reason; empty:
// any.
func (b *bufferTest) says(t *testing.T, name string, replicas int32, reason string) {
	t.Helper()
	testkit.Eventually(t, 2*patience, func() error {
		cb, is := b.get(t, name), b.condition(t, name, autoscalingv1beta1.ConditionTypeProvisioning)
		if cb.Status.Replicas == nil || *cb.Status.Replicas != replicas || reason != "" && is.Reason != reason {
			return fmt.Errorf("buffer %s says %+v, want %d and %s", name, cb.Status, replicas, reason)
		}
		return nil
	})
}

// hasNodes awaits that there are so many NodeClaims, all initialized.
func (b *bufferTest) hasNodes(t *testing.T, want int) {
	t.Helper()
	testkit.Eventually(t, 2*patience, func() error {
		p, err := observe(t.Context(), b.client)
		if err != nil {
			return err
		}
		for i := range p.claims {
			if !meta.IsStatusConditionTrue(p.claims[i].Status.Conditions, karpenterv1.ConditionTypeInitialized) {
				return fmt.Errorf("NodeClaim %s is not initialized", p.claims[i].Name)
			}
		}
		if len(p.claims) != want {
			return fmt.Errorf("there are %d NodeClaims, want %d", len(p.claims), want)
		}
		return nil
	})
}

// isHeld awaits the event of a node that says that a buffer needs it.
func (b *bufferTest) isHeld(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		var events corev1.EventList
		if err := b.client.List(t.Context(), &events); err != nil {
			return err
		}
		for i := range events.Items {
			if e := &events.Items[i]; e.Reason == "Unconsolidatable" && strings.Contains(e.Message, "default/room") {
				return nil
			}
		}
		return errors.New("no event says that the buffer needs a node")
	})
}

func (b *bufferTest) claims(t *testing.T) map[types.UID]bool {
	t.Helper()
	p, err := observe(t.Context(), b.client)
	noError(t, err)
	uids := map[types.UID]bool{}
	for i := range p.claims {
		uids[p.claims[i].UID] = true
	}
	return uids
}

// driftAll has every node replaced.
func (b *bufferTest) driftAll(t *testing.T) {
	t.Helper()
	old := b.claims(t)
	b.editPool(t, func(np *karpenterv1.NodePool) { np.Spec.Template.Labels = map[string]string{"generation": "two"} })
	testkit.Eventually(t, 3*patience, func() error {
		for uid := range b.claims(t) {
			if old[uid] {
				return errors.New("a drifted node is still there")
			}
		}
		return nil
	})
}

// removePods deletes the Deployment.
func (b *bufferTest) removePods(t *testing.T) {
	t.Helper()
	noError(t, b.client.DeleteAllOf(t.Context(), &appsv1.Deployment{}, client.InNamespace("default")))
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
