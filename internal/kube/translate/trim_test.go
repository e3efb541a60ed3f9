package translate

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// fullPod is a pod with something in every part that a trimmer looks at.
func fullPod(name string) *corev1.Pod {
	yes := true
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}}}
	now := metav1.NewTime(time.Unix(1e9, 0))
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, GenerateName: "web-", UID: "uid", Labels: map[string]string{"app": "web"},
			Annotations:     map[string]string{"karpenter.sh/do-not-disrupt": "1h", "kubectl.kubernetes.io/restartedAt": "now", corev1.PodDeletionCost: "7"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "owner", Controller: &yes}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
		},
		Spec: corev1.PodSpec{
			NodeName: "node-of-" + name, NodeSelector: map[string]string{"disk": "ssd"}, TerminationGracePeriodSeconds: new(int64(40)), Priority: new(int32(5)),
			Tolerations: []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "app", Image: "image", Env: []corev1.EnvVar{{Name: "A", Value: "B"}}, Resources: corev1.ResourceRequirements{Requests: requests},
				Ports: []corev1.ContainerPort{{HostPort: 80, ContainerPort: 80, Protocol: corev1.ProtocolTCP}}, LivenessProbe: probe,
			}},
			Volumes: []corev1.Volume{
				{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}},
				{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
			},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.0.0.1", StartTime: &now,
			Conditions:        []corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "app", Image: "image", AllocatedResources: requests.DeepCopy(), Resources: &corev1.ResourceRequirements{Requests: requests.DeepCopy()}}},
		},
	}
}

// resized returns a pod whose container still has more than its spec asks for.
func resized(name string) *corev1.Pod {
	p := fullPod(name)
	p.Status.ContainerStatuses[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("2")
	return p
}

// said is all that is read of a pod.
func said(p *corev1.Pod) string {
	now := time.Unix(1e9, 0).Add(time.Minute)
	cost, why := EvictionCost(p, false)
	return fmt.Sprintf("%s %+v %+v %+v %v %q %v %v %v %v %v %v %v", ConstraintsKey(p), *PodConstraints(p, Vocabulary{}), ReschedulablePod(p, AutoscalerRules{}, now), DoNotDisrupt(p, now),
		cost, why, ClaimsOf(p), Terminal(p), Evicted(p), Grace(p), Mirror(p), Unwanted(p), AutoscalerRules{}.BlocksDisruption(p, now))
}

func TestATrimmedPodSaysTheSame(t *testing.T) {
	t.Parallel()
	infeasible := resized("infeasible")
	infeasible.Status.Conditions = append(infeasible.Status.Conditions, corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible})
	evicted := fullPod("evicted")
	evicted.Status.Conditions = append(evicted.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: evictedReason})
	local := fullPod("local")
	local.Spec.Volumes = append(local.Spec.Volumes, corev1.Volume{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	for _, p := range []*corev1.Pod{fullPod("plain"), resized("resized"), infeasible, evicted, local, {}} {
		before := said(p)
		trimmer := &PodTrimmer{}
		trimmer.Trim(fullPod("another"))
		for range 2 { // it may be trimmed again
			trimmer.Trim(p)
			if diff := cmp.Diff(before, said(p)); diff != "" {
				t.Errorf("%s (-before +trimmed):\n%s", p.Name, diff)
			}
		}
	}
}

func TestPodsOfAWorkloadShareMemory(t *testing.T) {
	t.Parallel()
	trimmer := &PodTrimmer{}
	a, b, other := fullPod("a"), fullPod("b"), fullPod("other")
	other.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("300m")
	for _, p := range []*corev1.Pod{a, b, other} {
		trimmer.Trim(p)
	}
	if &a.Spec.Containers[0] != &b.Spec.Containers[0] {
		t.Error("pods that are alike have containers of their own")
	}
	if &b.Spec.Containers[0] == &other.Spec.Containers[0] {
		t.Error("pods that differ have the same containers")
	}
	if b.Spec.NodeName != "node-of-b" || b.Name != "b" {
		t.Errorf("pod b is %s on %s now", b.Name, b.Spec.NodeName)
	}
	if b.Spec.Containers[0].Env != nil || b.ManagedFields != nil || b.Status.PodIP != "" || b.Status.ContainerStatuses != nil {
		t.Errorf("kept what nobody reads: %+v", b)
	}
}

func TestATrimmerForgetsWorkloads(t *testing.T) {
	t.Parallel()
	trimmer := &PodTrimmer{}
	for i := range 3 * workloadsMost {
		p := &corev1.Pod{}
		p.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(fmt.Sprint(i))}}
		trimmer.Trim(p)
	}
	if n := len(trimmer.alike); n > workloadsMost {
		t.Errorf("remembers %d workloads", n)
	}
}

func TestSameConstraints(t *testing.T) {
	t.Parallel()
	base := func() *corev1.Pod { p := fullPod("p"); (&PodTrimmer{}).Trim(p); return p }
	moved := base()
	moved.Spec.NodeName = "other"
	if !SameConstraints(base(), moved) {
		t.Error("another node makes other constraints")
	}
	for name, change := range map[string]func(*corev1.Pod){
		"labels": func(p *corev1.Pod) { p.Labels = map[string]string{"app": "api"} },
		"requests": func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("3")
		},
		"tolerations": func(p *corev1.Pod) { p.Spec.Tolerations = nil },
		"statuses":    func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app"}} },
		"devices":     func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} },
	} {
		p := base()
		change(p)
		if SameConstraints(base(), p) || SameConstraints(p, base()) {
			t.Errorf("other %s, same constraints", name)
		}
	}
}

// TestAPodKeepsWhatIsItsOwn: a pod of the same workload that differs in one thing shares the rest, and not that, however
// it is read.
func TestAPodKeepsWhatIsItsOwn(t *testing.T) {
	t.Parallel()
	w := protobuf(t)
	pod := func() *corev1.Pod {
		p := fullPod("a")
		p.OwnerReferences[0].Controller, p.OwnerReferences[0].BlockOwnerDeletion = ptr.To(true), ptr.To(false)
		return p
	}
	for name, change := range map[string]func(*corev1.Pod){
		"namespace":       func(p *corev1.Pod) { p.Namespace = "other" },
		"generated name":  func(p *corev1.Pod) { p.GenerateName = "other-" },
		"label":           func(p *corev1.Pod) { p.Labels["app"] = "other" },
		"another label":   func(p *corev1.Pod) { p.Labels["other"] = "" },
		"no labels":       func(p *corev1.Pod) { p.Labels = nil },
		"annotation":      func(p *corev1.Pod) { p.Annotations["karpenter.sh/do-not-disrupt"] = "false" },
		"owner":           func(p *corev1.Pod) { p.OwnerReferences[0].Name = "other" },
		"kind of owner":   func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "Other" },
		"version":         func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "apps/v2" },
		"controller":      func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil },
		"blocks deletion": func(p *corev1.Pod) { p.OwnerReferences[0].BlockOwnerDeletion = ptr.To(true) },
		"second owner":    func(p *corev1.Pod) { p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{UID: "x"}) },
		"quality":         func(p *corev1.Pod) { p.Status.QOSClass = corev1.PodQOSBurstable },
		"phase":           func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },
		"spec":            func(p *corev1.Pod) { p.Spec.Priority = ptr.To[int32](9) },
		"node":            func(p *corev1.Pod) { p.Spec.NodeName = "other" },
		"name":            func(p *corev1.Pod) { p.Name, p.UID, p.ResourceVersion = "other", "other", "7" },
		"deletion": func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{}, ptr.To[int64](7)
		},
		"finalizers": func(p *corev1.Pod) { p.Finalizers = []string{"other"} },
		"resized":    func(p *corev1.Pod) { p.Status = resized("a").Status },
		"resize put off": func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodResizePending, Reason: corev1.PodReasonDeferred})
		},
		"resources of the pod": func(p *corev1.Pod) { p.Status.Resources = &corev1.ResourceRequirements{} },
		"another container":    func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Name = "other" },
		"no states":            func(p *corev1.Pod) { p.Status.ContainerStatuses = nil },
	} {
		trimmer := &PodTrimmer{}
		like, p, want := pod(), pod(), pod()
		change(p)
		change(want)
		trimmer.Trim(like)
		trimmer.Trim(p)
		TrimPod(want)
		if diff := cmp.Diff(want, p); diff != "" {
			t.Errorf("%s (-its own +shared):\n%s", name, diff)
		}

		reader := WireReader{w.decoder(), &PodTrimmer{}}
		other := pod()
		change(other)
		for i, data := range [][]byte{w.write(pod()), w.write(pod()), w.write(other), w.write(other), w.write(pod())} {
			if diff := cmp.Diff(trimmed(w.read(w.decoder(), data)), w.read(reader, data)); diff != "" {
				t.Errorf("%s, pod %d (-its own +shared):\n%s", name, i, diff)
			}
		}
	}
}

// BenchmarkSameConstraints compares two pods of one workload that share memory.
func BenchmarkSameConstraints(b *testing.B) {
	first, second, trimmer := fullPod("a"), fullPod("b"), &PodTrimmer{}
	first.Status, second.Status = corev1.PodStatus{}, corev1.PodStatus{}
	trimmer.Trim(first)
	trimmer.Trim(second)
	b.ReportAllocs()
	for b.Loop() {
		if !SameConstraints(first, second) {
			b.Fatal("they differ")
		}
	}
}
