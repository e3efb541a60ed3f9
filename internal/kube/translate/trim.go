package translate

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// workloadsMost bounds how many workloads, specs and metadata a PodTrimmer remembers, of each. With more it begins anew.
const workloadsMost = 5_000

// partMost bounds, in bytes of Protobuf, a part of a pod that is remembered for others. Without a bound, large pods that come and go would fill the memory.
const partMost = 16 << 10

// PodTrimmer takes from pods what nobody here reads, and lets pods of one workload share the memory of what is
// alike in them. What it has trimmed is for reading only.
type PodTrimmer struct {
	mu sync.Mutex
	// alike has a trimmed pod of each workload, by the UID of its owner.
	alike map[types.UID]*corev1.Pod
	// specs has trimmed specs by what they are in Protobuf without their node, and metadata trimmed ones by what pods
	// share of them in Protobuf.
	specs    map[string]*knownSpec
	metadata map[string]*metav1.ObjectMeta
}

// knownSpec is a trimmed spec that was read.
type knownSpec struct {
	corev1.PodSpec
	// asAsked is what kubelets said last, in Protobuf, that containers of this spec have, where that was what they ask
	// for; guarded by the trimmer's lock.
	asAsked string
}

// Trim trims a pod in place.
func (t *PodTrimmer) Trim(p *corev1.Pod) {
	TrimPod(p)
	t.share(p, true)
}

// know finds which parts of a pod were read before.
func (t *PodTrimmer) know(parts *podParts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if spec := t.specs[string(parts.spec)]; spec != nil {
		parts.shared.spec = spec
		parts.known.spec, parts.known.states = true, len(parts.states) == 0 || string(parts.states) == spec.asAsked
	}
	if meta := t.metadata[string(parts.meta)]; meta != nil {
		parts.shared.meta, parts.known.meta = *meta, true
	}
}

// trimParts trims a pod in place. Those of its parts that were read before are filled in, and the others remembered.
func (t *PodTrimmer) trimParts(p *corev1.Pod, parts *podParts) {
	if known := parts.shared.spec; known != nil {
		p.Spec = known.PodSpec
		p.Spec.NodeName = parts.node
	} else {
		TrimPodSpec(&p.Spec)
	}
	trimRest(p)
	t.share(p, !parts.known.spec)
	if parts.known != (knownParts{true, true, true}) {
		t.remember(p, parts)
	}
}

// remember remembers the parts of a trimmed pod that were not known.
func (t *PodTrimmer) remember(p *corev1.Pod, parts *podParts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	spec := parts.shared.spec
	if spec == nil {
		spec = &knownSpec{PodSpec: p.Spec}
		rememberIn(&t.specs, parts.spec, spec)
	}
	if len(parts.states) > 0 && !isResized(p) {
		spec.asAsked = string(parts.states)
	}
	if !parts.known.meta {
		rememberIn(&t.metadata, parts.meta, &metav1.ObjectMeta{
			GenerateName: p.GenerateName, Namespace: p.Namespace, Labels: p.Labels, Annotations: p.Annotations,
			OwnerReferences: p.OwnerReferences, Finalizers: p.Finalizers,
		})
	}
}

func rememberIn[T any](all *map[string]*T, wire []byte, read *T) {
	if len(wire) > partMost {
		return
	}
	if len(*all) >= workloadsMost || *all == nil {
		*all = map[string]*T{}
	}
	(*all)[string(wire)] = read
}

// share has a trimmed pod share what it has in common with the last one of its workload: its spec, unless that is shared
// already, and the rest.
func (t *PodTrimmer) share(p *corev1.Pod, hasOwnSpec bool) {
	if len(p.OwnerReferences) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	owner := p.OwnerReferences[0].UID
	if like := t.alike[owner]; like != nil {
		shareRest(p, like)
		if hasOwnSpec {
			shareSpec(p, like)
		}
	}
	if len(t.alike) >= workloadsMost || t.alike == nil {
		t.alike = map[types.UID]*corev1.Pod{}
	}
	t.alike[owner] = p
}

// shareRest has a pod share what is equal in another one, but its spec.
func shareRest(p, like *corev1.Pod) {
	share(&p.Namespace, like.Namespace, p.Namespace == like.Namespace)
	share(&p.GenerateName, like.GenerateName, p.GenerateName == like.GenerateName)
	share(&p.Labels, like.Labels, maps.Equal(p.Labels, like.Labels))
	share(&p.Annotations, like.Annotations, maps.Equal(p.Annotations, like.Annotations))
	share(&p.OwnerReferences, like.OwnerReferences, slices.EqualFunc(p.OwnerReferences, like.OwnerReferences, sameOwner))
	share(&p.Status.QOSClass, like.Status.QOSClass, p.Status.QOSClass == like.Status.QOSClass)
	share(&p.Status.Phase, like.Status.Phase, p.Status.Phase == like.Status.Phase)
}

// shareSpec has a pod share the spec of another one, if they are equal but for their nodes.
func shareSpec(p, like *corev1.Pod) {
	node := p.Spec.NodeName
	p.Spec.NodeName = like.Spec.NodeName
	share(&p.Spec, like.Spec, reflect.DeepEqual(&p.Spec, &like.Spec))
	p.Spec.NodeName = node
}

func sameOwner(a, b metav1.OwnerReference) bool {
	return a.UID == b.UID && a.Name == b.Name && a.Kind == b.Kind && a.APIVersion == b.APIVersion &&
		ptr.Equal(a.Controller, b.Controller) && ptr.Equal(a.BlockOwnerDeletion, b.BlockOwnerDeletion)
}

func share[T any](mine *T, other T, isEqual bool) {
	if isEqual {
		*mine = other
	}
}

// TrimPod takes from a pod what nobody here reads: how its containers run, and what its kubelet says of them.
func TrimPod(p *corev1.Pod) {
	TrimPodSpec(&p.Spec)
	trimRest(p)
}

// trimRest trims all of a pod but its spec.
func trimRest(p *corev1.Pod) {
	p.ManagedFields = nil
	p.Annotations = trimAnnotations(p.Annotations)
	s := &p.Status
	s.PodIP, s.PodIPs, s.HostIP, s.HostIPs, s.EphemeralContainerStatuses = "", nil, "", nil, nil
	s.Conditions = trimConditions(s.Conditions)
	if isResized(p) {
		TrimStatuses(s.InitContainerStatuses)
		TrimStatuses(s.ContainerStatuses)
	} else {
		s.InitContainerStatuses, s.ContainerStatuses = nil, nil
	}
}

// trimAnnotations leaves the annotations that are read. The map stays as it is, since pods may share it.
func trimAnnotations(annotations map[string]string) (kept map[string]string) {
	read := 0
	for key := range annotations {
		if ReadsAnnotation(key) {
			read++
		}
	}
	switch read {
	case 0:
		return nil
	case len(annotations):
		return annotations
	}
	kept = maps.Clone(annotations)
	maps.DeleteFunc(kept, func(key, _ string) bool { return !ReadsAnnotation(key) })
	return kept
}

// readConditions say whether a pod asks for a node, is ready, is being evicted, or is resized.
var readConditions = []corev1.PodConditionType{corev1.PodScheduled, corev1.PodReady, corev1.DisruptionTarget, corev1.PodResizePending, corev1.PodResizeInProgress} //nolint:gochecknoglobals // a constant that Go cannot spell

// trimConditions leaves the conditions that are read.
func trimConditions(all []corev1.PodCondition) (kept []corev1.PodCondition) {
	for i := range all {
		for _, read := range readConditions {
			if all[i].Type == read {
				all[i].Type = read // one string for all
				kept = append(kept, all[i])
			}
		}
	}
	return slices.Clip(kept)
}

// isResized reports whether what a pod has differs from what its spec asks for, so that its status counts.
func isResized(p *corev1.Pod) bool {
	if resourcehelper.IsPodResizeInfeasible(p) || resourcehelper.IsPodResizeDeferred(p) || p.Status.Resources != nil || p.Status.AllocatedResources != nil {
		return true
	}
	if len(p.Status.InitContainerStatuses)+len(p.Status.ContainerStatuses) == 0 {
		return false
	}
	asked := map[string]corev1.ResourceList{}
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			asked[list[i].Name] = list[i].Resources.Requests
		}
	}
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range list {
			s := &list[i]
			if s.AllocatedResources != nil && !sameAmounts(s.AllocatedResources, asked[s.Name]) || s.Resources != nil && s.Resources.Requests != nil && !sameAmounts(s.Resources.Requests, asked[s.Name]) {
				return true
			}
		}
	}
	return false
}

func sameAmounts(a, b corev1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, amount := range a {
		if other, has := b[name]; !has || amount.Cmp(other) != 0 {
			return false
		}
	}
	return true
}

// TrimPodSpec leaves of a pod's spec what a scheduler reads.
func TrimPodSpec(spec *corev1.PodSpec) {
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			c := &list[i]
			list[i] = corev1.Container{
				Name: c.Name, Image: "none", Ports: c.Ports, Resources: c.Resources, ResizePolicy: c.ResizePolicy, RestartPolicy: c.RestartPolicy,
			}
		}
	}
	spec.EphemeralContainers, spec.ImagePullSecrets, spec.HostAliases, spec.DNSConfig, spec.SecurityContext = nil, nil, nil, nil, nil
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		source := corev1.VolumeSource{PersistentVolumeClaim: v.PersistentVolumeClaim, Ephemeral: v.Ephemeral, EmptyDir: v.EmptyDir}
		if v.HostPath != nil {
			source.HostPath = &corev1.HostPathVolumeSource{Path: "/none"}
		}
		v.VolumeSource = source
	}
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool { return v.VolumeSource == corev1.VolumeSource{} })
}

// TrimStatuses leaves of containers' states what in-place resizes say.
func TrimStatuses(list []corev1.ContainerStatus) {
	for i := range list {
		list[i] = corev1.ContainerStatus{Name: list[i].Name, AllocatedResources: list[i].AllocatedResources, Resources: list[i].Resources, Started: list[i].Started, Ready: list[i].Ready}
	}
}

// ReadsAnnotation reports whether somebody here reads an annotation of pods or other objects.
func ReadsAnnotation(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	return prefix == "dovetail.sh" || prefix == karpenterv1.Group || prefix == "cluster-autoscaler.kubernetes.io" || strings.HasPrefix(prefix, "karpenter.") ||
		slices.Contains([]string{
			metav1.InitialEventsAnnotationKey, // of a bookmark, by which an informer knows that it has all
			corev1.PodDeletionCost, corev1.MirrorPodAnnotationKey, "volume.kubernetes.io/selected-node",
			"pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller", "storageclass.kubernetes.io/is-default-class",
		}, key)
}
