package mirror

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// volumes hold the objects of storage.
type volumes struct {
	listeners *listeners

	claims      map[types.NamespacedName]*corev1.PersistentVolumeClaim
	all         map[string]*corev1.PersistentVolume
	unbound     map[string]map[string]*corev1.PersistentVolume // class → name: those that may still be bound
	classes     map[string]*storagev1.StorageClass
	limits      map[string]quantity.List                          // node → what it can attach
	attachments map[string]map[string]*storagev1.VolumeAttachment // node → name
	// version counts the changes of claims, volumes and classes. It begins with 1.
	version uint64
	// isWanted: a pod with volumes asked for a node when the last snapshot was taken.
	isWanted bool
}

func newVolumes(l *listeners) *volumes {
	return &volumes{
		listeners: l,
		claims:    map[types.NamespacedName]*corev1.PersistentVolumeClaim{}, all: map[string]*corev1.PersistentVolume{},
		unbound: map[string]map[string]*corev1.PersistentVolume{}, classes: map[string]*storagev1.StorageClass{},
		limits: map[string]quantity.List{}, version: 1, attachments: map[string]map[string]*storagev1.VolumeAttachment{},
	}
}

func (x *volumes) upsertClaim(c *corev1.PersistentVolumeClaim) {
	x.version++
	x.claims[client.ObjectKeyFromObject(c)] = c
	x.reportWork("pvc/"+c.Namespace, c)
}

func (x *volumes) removeClaim(c *corev1.PersistentVolumeClaim) {
	x.version++
	delete(x.claims, client.ObjectKeyFromObject(c))
}

func (x *volumes) upsert(pv *corev1.PersistentVolume) {
	x.version++
	x.removeUnbound(x.all[pv.Name])
	x.all[pv.Name] = pv
	x.addUnbound(pv)
	x.reportWork("pv", pv)
}

func (x *volumes) remove(pv *corev1.PersistentVolume) {
	x.version++
	x.removeUnbound(x.all[pv.Name])
	delete(x.all, pv.Name)
}

func (x *volumes) addUnbound(pv *corev1.PersistentVolume) {
	if pv.Status.Phase == corev1.VolumeBound {
		return
	}
	class := volume.GetPersistentVolumeClass(pv)
	if x.unbound[class] == nil {
		x.unbound[class] = map[string]*corev1.PersistentVolume{}
	}
	x.unbound[class][pv.Name] = pv
}

func (x *volumes) removeUnbound(pv *corev1.PersistentVolume) {
	if pv == nil || pv.Status.Phase == corev1.VolumeBound {
		return
	}
	class := volume.GetPersistentVolumeClass(pv)
	delete(x.unbound[class], pv.Name)
	if len(x.unbound[class]) == 0 {
		delete(x.unbound, class)
	}
}

func (x *volumes) upsertClass(c *storagev1.StorageClass) {
	x.version++
	x.classes[c.Name] = c
	x.reportWork("storageclass", c)
}

func (x *volumes) removeClass(c *storagev1.StorageClass) {
	x.version++
	delete(x.classes, c.Name)
}

func (x *volumes) upsertLimits(n *storagev1.CSINode) { x.limits[n.Name] = translate.AttachLimits(n) }
func (x *volumes) removeLimits(n *storagev1.CSINode) { delete(x.limits, n.Name) }

func (x *volumes) upsertAttachment(a *storagev1.VolumeAttachment) {
	on := x.attachments[a.Spec.NodeName]
	if on == nil {
		on = map[string]*storagev1.VolumeAttachment{}
		x.attachments[a.Spec.NodeName] = on
	}
	on[a.Name] = a
}

func (x *volumes) removeAttachment(a *storagev1.VolumeAttachment) {
	on := x.attachments[a.Spec.NodeName]
	delete(on, a.Name)
	if len(on) == 0 {
		delete(x.attachments, a.Spec.NodeName)
	}
}

// reportWork asks for a new plan if pending pods have volumes that the object may concern.
func (x *volumes) reportWork(kind string, o client.Object) {
	if x.isWanted {
		x.listeners.work(fmt.Sprintf("%s/%s/%s", kind, o.GetName(), o.GetResourceVersion()))
	}
}
