package mirror

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// triggers draws events that a store may get, by what they are about: few objects, in many states.
var triggers = map[string]func(*rapid.T) func(*Store){
	"pod":              drawn(upsert, anyPod),
	"another pod":      drawn(upsert, anyPod),
	"pod gone":         drawn(remove, anyPod),
	"node":             drawn(upsert, anyNode),
	"another node":     drawn(upsert, anyNode),
	"node gone":        drawn(remove, anyNode),
	"claim":            drawn(upsert, anyClaim),
	"another claim":    drawn(upsert, anyClaim),
	"claim gone":       drawn(remove, anyClaim),
	"claim made":       drawn((*Store).AssumeClaim, anyClaim),
	"budget":           drawn(upsert, anyBudget),
	"budget gone":      drawn(remove, anyBudget),
	"volume claim":     drawn(upsert, anyVolumeClaim),
	"no volume claim":  drawn(remove, anyVolumeClaim),
	"volume":           drawn(upsert, anyVolume),
	"volume gone":      drawn(remove, anyVolume),
	"class":            drawn(upsert, anyStorageClass),
	"class gone":       drawn(remove, anyStorageClass),
	"limits":           drawn(upsert, anyCSINode),
	"limits gone":      drawn(remove, anyCSINode),
	"attached":         drawn(upsert, anyAttachment),
	"attached no more": drawn(remove, anyAttachment),
	"plan": func(t *rapid.T) func(*Store) {
		pods, node := anyRefs(t), anyName(t)
		return func(s *Store) { s.Assign(pods, node) }
	},
	"step": func(t *rapid.T) func(*Store) {
		pods, node := anyRefs(t), anyName(t)
		return func(s *Store) { s.AssignFor("step1", pods, node) }
	},
}

// drawn draws an object and returns an event: a call of report with that object.
func drawn[T any](report func(*Store, T), of func(*rapid.T) T) func(*rapid.T) func(*Store) {
	return func(t *rapid.T) func(*Store) {
		o := of(t)
		return func(s *Store) { report(s, o) }
	}
}

func oneOf[T any](t *rapid.T, name string, of ...T) T { return rapid.SampledFrom(of).Draw(t, name) }

func annotated(t *rapid.T) map[string]string {
	if v := oneOf(t, "annotation", "", "", "", "true", "30m"); v != "" {
		return map[string]string{karpenterv1.DoNotDisruptAnnotationKey: v}
	}
	return nil
}

func deleted(t *rapid.T) *metav1.Time {
	if oneOf(t, "deleted", false, false, false, true) {
		return &metav1.Time{Time: noon}
	}
	return nil
}

// created is before or after the store was.
func created(t *rapid.T) metav1.Time {
	return metav1.NewTime(oneOf(t, "created", noon.Add(-nominationShown), noon))
}

func anyName(t *rapid.T) string { return oneOf(t, "node", "n0", "n1", "n2", "c0", "c1") }

func anyVolumeName(t *rapid.T) string { return oneOf(t, "volume", "v0", "v1", "v2") }

func anyRefs(t *rapid.T) []cluster.PodRef { return []cluster.PodRef{translate.PodRef(anyPod(t))} }

func anyPod(t *rapid.T) *corev1.Pod {
	p := boundPod(fmt.Sprint("p", rapid.IntRange(0, 5).Draw(t, "pod")), oneOf(t, "on", "n0", "n1", "n2"))
	if oneOf(t, "pending", false, false, true) {
		p = pendingPod(p.Name)
		p.Status.NominatedNodeName = oneOf(t, "nominated", "", "", "n0", "n1")
	}
	p.Labels = map[string]string{"app": oneOf(t, "app", "a", "b")}
	p.Annotations, p.DeletionTimestamp, p.CreationTimestamp = annotated(t), deleted(t), created(t)
	p.Status.StartTime = &metav1.Time{Time: noon}
	p.Status.Phase = oneOf(t, "phase", corev1.PodRunning, corev1.PodRunning, corev1.PodSucceeded)
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: oneOf(t, "ready", corev1.ConditionTrue, corev1.ConditionFalse)})
	if oneOf(t, "evicted", false, false, true) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"})
	}
	switch oneOf(t, "owner", "", "DaemonSet", "ReplicaSet", "ReplicaSet") {
	case "DaemonSet":
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d"}}
	case "ReplicaSet":
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", UID: "r", Controller: ptr.To(true)}}
	}
	switch oneOf(t, "volumes", "", "token", "claim", "claim") {
	case "token": // every pod of a real cluster has one
		p.Spec.Volumes = []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}}
	case "claim":
		p = withClaims(p, anyVolumeName(t))
	}
	return p
}

func anyNode(t *rapid.T) *corev1.Node {
	name := oneOf(t, "node", "n0", "n1", "n2")
	n := testNode(name, oneOf(t, "provider", "", "kwok://"+name, "kwok://"+name, "kwok://n0"), oneOf(t, "registered", true, true, false))
	n.Annotations, n.DeletionTimestamp, n.CreationTimestamp = annotated(t), deleted(t), created(t)
	n.Labels[corev1.LabelHostname] = oneOf(t, "host", name, "h")
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: oneOf(t, "ready", corev1.ConditionTrue, corev1.ConditionFalse)}}
	return n
}

func anyClaim(t *rapid.T) *karpenterv1.NodeClaim {
	nc := testClaim(oneOf(t, "claim", "c0", "c1", "n2"), oneOf(t, "provider", "", "kwok://n0", "kwok://n1", "kwok://n2"))
	nc.Spec.NodeClassRef.Group = oneOf(t, "group", classGroup, classGroup, classGroup, "another")
	nc.Annotations, nc.DeletionTimestamp, nc.CreationTimestamp = annotated(t), deleted(t), created(t)
	if oneOf(t, "step", false, true) {
		metav1.SetMetaDataAnnotation(&nc.ObjectMeta, translate.StepAnnotationKey, translate.StepAnnotation(&plan.Command{ID: "step1", Remove: make([]plan.Removal, 1)}))
	}
	if oneOf(t, "initialized", false, true) {
		nc.Status.Conditions = []metav1.Condition{{Type: karpenterv1.ConditionTypeInitialized, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon)}}
	}
	return nc
}

func anyBudget(t *rapid.T) *policyv1.PodDisruptionBudget {
	always := policyv1.AlwaysAllow
	version := oneOf[int64](t, "generation", 1, 2)
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: oneOf(t, "namespace", "another", "default", "default"), Name: oneOf(t, "budget", "x", "y"),
			UID: types.UID(oneOf(t, "uid", "1", "2")), Generation: version,
		},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprintf("%c", 'a'+rune(version-1))}}, UnhealthyPodEvictionPolicy: &always,
		},
		Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: int32(rapid.IntRange(0, 2).Draw(t, "allowed")), ObservedGeneration: 2},
	}
}

// anyVolumeClaim is bound or waits, for a node or for any, and is for many pods or for one.
func anyVolumeClaim(t *rapid.T) *corev1.PersistentVolumeClaim {
	c, _ := boundPair(anyVolumeName(t), "a")
	if oneOf(t, "waits", false, false, true) {
		c = waitingPVC(c.Name)
		if host := oneOf(t, "selected", "", "n0", "n1"); host != "" {
			c.Annotations = map[string]string{"volume.kubernetes.io/selected-node": host}
		}
	}
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{oneOf(t, "access", corev1.ReadWriteOnce, corev1.ReadWriteOnce, corev1.ReadWriteOncePod)}
	return c
}

func anyVolume(t *rapid.T) *corev1.PersistentVolume {
	_, pv := boundPair(anyVolumeName(t), oneOf(t, "zone", "a", "b"))
	pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	if oneOf(t, "unbound", false, true) {
		pv.Status.Phase, pv.Spec.StorageClassName = corev1.VolumeAvailable, "zonal"
	}
	return pv
}

func anyStorageClass(t *rapid.T) *storagev1.StorageClass {
	return zonalClass(oneOf(t, "zone", "a", "b"))
}

func anyCSINode(t *rapid.T) *storagev1.CSINode {
	return &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: oneOf(t, "node", "n0", "n1")},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
			Name: "ebs", Allocatable: &storagev1.VolumeNodeResources{Count: ptr.To(int32(rapid.IntRange(1, 2).Draw(t, "limit")))},
		}}},
	}
}

func anyAttachment(t *rapid.T) *storagev1.VolumeAttachment {
	name := anyVolumeName(t)
	a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a-" + name}}
	a.Spec.NodeName, a.Spec.Source.PersistentVolumeName = oneOf(t, "node", "n0", "n1"), ptr.To("pv-"+name)
	return a
}
