package cluster

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	storageClass = "disk"
	driver       = "disk.example"
	// attachLeast and attachMost bound how long it takes to attach a volume or to detach it.
	attachLeast, attachMost = 500 * time.Millisecond, 8 * time.Second
	// detachLate is by how much longer it may take when that goes wrong.
	detachLate = 3 * time.Minute
)

// Volumes stands in for what provisions volumes, attaches them to Nodes and detaches them. A volume
// is in one zone, and on one Node at a time.
type Volumes struct {
	config *Config
	api    *API
}

// AddClass makes a storage class whose volumes are made where their first pod goes.
func (v *Volumes) AddClass() {
	late := storagev1.VolumeBindingWaitForFirstConsumer
	_ = v.api.Create(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: storageClass}, Provisioner: driver, VolumeBindingMode: &late}) // names are unique
}

// claimOf names the claim of a pod that has a volume of its own.
func claimOf(pod string) string { return "data-" + pod }

// createClaim makes the claim of a pod, unless there is one from its predecessor.
func (v *Volumes) createClaim(pod string) {
	class := storageClass
	_ = v.api.Create(&corev1.PersistentVolumeClaim{ // there is one already
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: claimOf(pod)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	})
}

// claimsOf returns the claims that a pod names.
func claimsOf(pod *corev1.Pod) (names []string) {
	for i := range pod.Spec.Volumes {
		if c := pod.Spec.Volumes[i].PersistentVolumeClaim; c != nil {
			names = append(names, c.ClaimName)
		}
	}
	return names
}

// reach reports whether the volumes of a pod can be had on a Node.
func (v *Volumes) reach(pod *corev1.Pod, node *corev1.Node) bool {
	for _, name := range claimsOf(pod) {
		claim, ok := Find[*corev1.PersistentVolumeClaim](v.api, pod.Namespace, name)
		if !ok {
			return false
		}
		if claim.Spec.VolumeName == "" {
			continue
		}
		pv, ok := Find[*corev1.PersistentVolume](v.api, "", claim.Spec.VolumeName)
		if !ok || !isNear(pv, node) {
			return false
		}
	}
	return true
}

// isNear reports whether a volume is in the zone of a Node.
func isNear(pv *corev1.PersistentVolume, node *corev1.Node) bool {
	if pv.Spec.NodeAffinity == nil {
		return true
	}
	for _, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		if !slices.ContainsFunc(term.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool { return !slices.Contains(e.Values, node.Labels[e.Key]) }) {
			return true
		}
	}
	return false
}

// provide makes the volumes that a pod still lacks, for the Node that it is going to.
func (v *Volumes) provide(pod *corev1.Pod, node *corev1.Node) {
	for _, name := range claimsOf(pod) {
		claim, ok := Find[*corev1.PersistentVolumeClaim](v.api, pod.Namespace, name)
		if !ok || claim.Spec.VolumeName != "" {
			continue
		}
		pv := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name},
			Spec: corev1.PersistentVolumeSpec{
				StorageClassName: storageClass, AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests,
				ClaimRef:               &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: name, UID: claim.UID},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name}},
				NodeAffinity:           inZone(node.Labels[corev1.LabelTopologyZone]),
			},
			Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
		}
		_ = v.api.Create(pv) // names are unique
		v.bind(claim, pv.Name)
	}
}

func inZone(zone string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
	}}}}
}

func (v *Volumes) bind(claim *corev1.PersistentVolumeClaim, pv string) {
	Edit(v.api, claim, func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeName, c.Status.Phase = pv, corev1.ClaimBound
		c.Annotations = maps.Clone(c.Annotations)
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, volume.AnnBindCompleted, "yes")
	})
}

// observe binds claims that name their volume, and attaches and detaches volumes as pods come and go.
func (v *Volumes) observe(kind string, was, is client.Object) {
	switch kind {
	case "PersistentVolumeClaim":
		if claim, _ := is.(*corev1.PersistentVolumeClaim); claim != nil && claim.Spec.VolumeName != "" && claim.Status.Phase != corev1.ClaimBound {
			v.config.soon(10*time.Millisecond, time.Second, func() { v.bind(claim, claim.Spec.VolumeName) })
		}
	case "Pod":
		before, _ := was.(*corev1.Pod)
		after, _ := is.(*corev1.Pod)
		switch {
		case before != nil && before.Spec.NodeName != "" && len(before.Spec.Volumes) > 0 && (after == nil || !IsActive(after)):
			v.each(before, v.detach)
		case after != nil && after.Spec.NodeName != "" && len(after.Spec.Volumes) > 0 && (before == nil || before.Spec.NodeName == ""):
			v.each(after, v.attach)
		}
	}
}

// each has something done to the volumes of a pod some time later.
func (v *Volumes) each(pod *corev1.Pod, do func(pv, node string)) {
	for _, name := range claimsOf(pod) {
		if claim, ok := Find[*corev1.PersistentVolumeClaim](v.api, pod.Namespace, name); ok && claim.Spec.VolumeName != "" {
			v.config.soon(attachLeast, attachMost, func() { do(claim.Spec.VolumeName, pod.Spec.NodeName) })
		}
	}
}

// attachment names the object that says that a volume is attached to a Node.
func attachment(pv, node string) string { return strings.Join([]string{"csi", pv, node}, "-") }

// isAttached reports whether the volumes of a pod are on its Node.
func (v *Volumes) isAttached(pod *corev1.Pod) bool {
	for _, name := range claimsOf(pod) {
		claim, ok := Find[*corev1.PersistentVolumeClaim](v.api, pod.Namespace, name)
		if !ok || v.api.Get("VolumeAttachment", "", attachment(claim.Spec.VolumeName, pod.Spec.NodeName)) == nil {
			return false
		}
	}
	return true
}

// attach attaches a volume to the Node of the pod that uses it, once it is on no other.
func (v *Volumes) attach(pv, node string) {
	if !v.inUse(pv, node) {
		return
	}
	for _, a := range All[*storagev1.VolumeAttachment](v.api) {
		if *a.Spec.Source.PersistentVolumeName == pv && a.Spec.NodeName != node {
			v.config.after(attachMost, func() { v.attach(pv, node) })
			return
		}
	}
	v.config.Hooks.Count("volumes attached")
	_ = v.api.Create(&storagev1.VolumeAttachment{ // there is one already
		ObjectMeta: metav1.ObjectMeta{Name: attachment(pv, node)},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv}},
		Status:     storagev1.VolumeAttachmentStatus{Attached: true},
	})
}

// detach detaches a volume from a Node whose pods use it no more.
func (v *Volumes) detach(pv, node string) {
	if v.inUse(pv, node) {
		return
	}
	if v.config.Hooks.DetachesLate() {
		v.config.soon(0, detachLate, func() { v.detach(pv, node) })
		return
	}
	if a, ok := Find[*storagev1.VolumeAttachment](v.api, "", attachment(pv, node)); ok {
		v.api.Delete(a, 0)
	}
}

// inUse reports whether a pod on a Node uses a volume.
func (v *Volumes) inUse(pv, node string) bool {
	return slices.ContainsFunc(v.api.PodsOn(node), func(pod *corev1.Pod) bool { return IsActive(pod) && v.Uses(pod, pv) })
}

// Uses reports whether a pod uses a volume.
func (v *Volumes) Uses(pod *corev1.Pod, pv string) bool {
	return slices.ContainsFunc(claimsOf(pod), func(name string) bool {
		claim, ok := Find[*corev1.PersistentVolumeClaim](v.api, pod.Namespace, name)
		return ok && claim.Spec.VolumeName == pv
	})
}
