package mirror

import (
	"cmp"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// volumes is what is known of storage.
type volumes struct {
	claims  map[types.NamespacedName]*corev1.PersistentVolumeClaim
	all     map[string]*corev1.PersistentVolume
	loose   map[string]map[string]*corev1.PersistentVolume // class → name: those that may still be bound
	classes map[string]*storagev1.StorageClass
	limits  map[string]quantity.List                          // node → what it can attach
	made    map[string]map[string]*storagev1.VolumeAttachment // node → name
	// changes counts those of claims, volumes and classes; it begins with 1.
	changes uint64
	// wanted: a pod with volumes waited for a node when the last snapshot was taken.
	wanted bool
}

func newVolumes() volumes {
	return volumes{
		claims: map[types.NamespacedName]*corev1.PersistentVolumeClaim{}, all: map[string]*corev1.PersistentVolume{},
		loose: map[string]map[string]*corev1.PersistentVolume{}, classes: map[string]*storagev1.StorageClass{},
		limits: map[string]quantity.List{}, changes: 1, made: map[string]map[string]*storagev1.VolumeAttachment{},
	}
}

// volumeKinds are the objects by which volumes decide where pods may go.
func (s *Store) volumeKinds() []watched {
	return []watched{
		{&corev1.PersistentVolumeClaim{}, on(s.upsertPVC), on(s.removePVC)},
		{&corev1.PersistentVolume{}, on(s.upsertPV), on(s.removePV)},
		{&storagev1.StorageClass{}, on(s.upsertStorageClass), on(s.removeStorageClass)},
		{&storagev1.CSINode{}, on(s.upsertCSINode), on(s.removeCSINode)},
		{&storagev1.VolumeAttachment{}, on(s.upsertAttachment), on(s.removeAttachment)},
	}
}

func (s *Store) upsertPVC(c *corev1.PersistentVolumeClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.volumes.changes++
	s.volumes.claims[client.ObjectKeyFromObject(c)] = c
	s.wakeForVolumes("pvc/"+c.Namespace, c)
}

func (s *Store) removePVC(c *corev1.PersistentVolumeClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.volumes.changes++
	delete(s.volumes.claims, client.ObjectKeyFromObject(c))
}

func (s *Store) upsertPV(pv *corev1.PersistentVolume) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.volumes.changes++
	s.loosen(s.volumes.all[pv.Name], false)
	s.volumes.all[pv.Name] = pv
	s.loosen(pv, true)
	s.wakeForVolumes("pv", pv)
}

func (s *Store) removePV(pv *corev1.PersistentVolume) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.volumes.changes++
	s.loosen(s.volumes.all[pv.Name], false)
	delete(s.volumes.all, pv.Name)
}

// loosen notes that a volume is, or is not, one that may still be bound.
func (s *Store) loosen(pv *corev1.PersistentVolume, there bool) {
	if pv == nil || pv.Status.Phase == corev1.VolumeBound {
		return
	}
	class := volume.GetPersistentVolumeClass(pv)
	if !there {
		delete(s.volumes.loose[class], pv.Name)
		if len(s.volumes.loose[class]) == 0 {
			delete(s.volumes.loose, class)
		}
		return
	}
	if s.volumes.loose[class] == nil {
		s.volumes.loose[class] = map[string]*corev1.PersistentVolume{}
	}
	s.volumes.loose[class][pv.Name] = pv
}

func (s *Store) upsertStorageClass(c *storagev1.StorageClass) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.volumes.changes++
	s.volumes.classes[c.Name] = c
	s.wakeForVolumes("storageclass", c)
}

func (s *Store) removeStorageClass(c *storagev1.StorageClass) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.volumes.changes++
	delete(s.volumes.classes, c.Name)
}

func (s *Store) upsertCSINode(n *storagev1.CSINode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.volumes.limits[n.Name] = translate.AttachLimits(n)
	s.remake(n.Name)
}

func (s *Store) removeCSINode(n *storagev1.CSINode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.volumes.limits, n.Name)
	s.remake(n.Name)
}

func (s *Store) upsertAttachment(a *storagev1.VolumeAttachment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	on := s.volumes.made[a.Spec.NodeName]
	if on == nil {
		on = map[string]*storagev1.VolumeAttachment{}
		s.volumes.made[a.Spec.NodeName] = on
	}
	on[a.Name] = a
}

func (s *Store) removeAttachment(a *storagev1.VolumeAttachment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	on := s.volumes.made[a.Spec.NodeName]
	delete(on, a.Name)
	if len(on) == 0 {
		delete(s.volumes.made, a.Spec.NodeName)
	}
}

// wakeForVolumes asks for a new plan when pods wait whose volumes the object may concern.
func (s *Store) wakeForVolumes(kind string, o client.Object) {
	if s.volumes.wanted {
		s.wake(fmt.Sprintf("%s/%s/%s", kind, o.GetName(), o.GetResourceVersion()))
	}
}

// known fills a claim of a pod in with what there is.
func (s *Store) known(p *corev1.Pod, c *translate.PodClaim) {
	c.Claim = s.volumes.claims[types.NamespacedName{Namespace: p.Namespace, Name: c.Name}]
	if c.Claim == nil {
		return
	}
	c.Volume = s.volumes.all[c.Claim.Spec.VolumeName]
	c.Class = s.volumes.classes[volume.GetPersistentVolumeClaimClass(c.Claim)]
	if n := s.nodes[c.Claim.Annotations[volume.AnnSelectedNode]]; n != nil {
		c.Host = cmp.Or(n.Labels[corev1.LabelHostname], n.Name)
	}
}

// attach counts the volumes that a machine has, against those that it can attach: those
// of its pods, each once, and those that are attached without a pod.
func (s *Store) attach(n *cluster.Node, m *machine) {
	if !m.limited || !m.claiming && len(s.volumes.made[m.name]) == 0 {
		return
	}
	n.Used = maps.Clone(n.Used)
	has := map[[2]string]bool{} // driver, handle
	for _, p := range s.byNode[m.name] {
		for _, c := range translate.ClaimsOf(p.Pod) {
			s.known(p.Pod, &c)
			driver, handle := c.Attachment()
			has[[2]string{driver, handle}] = true
		}
	}
	for _, a := range s.volumes.made[m.name] {
		if name := a.Spec.Source.PersistentVolumeName; name != nil && s.volumes.all[*name] != nil {
			driver, handle := translate.VolumeHandle(s.volumes.all[*name])
			has[[2]string{driver, handle}] = true
		}
	}
	for volume := range has {
		// One too many must not keep out pods that have no volumes.
		if name := quantity.AttachPrefix + volume[0]; n.Used[name] < n.Allocatable[name] {
			n.Used[name]++
		}
	}
}

// limited tells whether a machine is known to attach no more than so many volumes.
func limited(l quantity.List) bool {
	for name := range l {
		if strings.HasPrefix(name, quantity.AttachPrefix) {
			return true
		}
	}
	return false
}
