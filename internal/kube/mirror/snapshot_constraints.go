package mirror

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// volumeConstraints adds what their volumes require to the constraints of one snapshot's pods.
// Pods with equal constraints whose volumes require the same have equal constraints after it.
type volumeConstraints struct {
	store   *Store
	unbound map[string][]*corev1.PersistentVolume // by storage class, sorted
	owners  map[types.NamespacedName]*pod         // by claim; nil until asked for
}

func newVolumeConstraints(s *Store) *volumeConstraints {
	s.volumes.isWanted = false
	return &volumeConstraints{store: s, unbound: map[string][]*corev1.PersistentVolume{}}
}

// of returns everything that decides where a pod can go. isLasting reports whether the answer
// stays the same until the pod, a claim, a volume or a storage class changes.
func (x *volumeConstraints) of(p *pod) (constraints *cluster.Constraints, isLasting bool) {
	if constraints, isLasting = x.withVolumes(p); len(p.history.refusedBy) > 0 {
		return constraints.Without(p.history.refusedBy...), false
	}
	return constraints, isLasting
}

func (x *volumeConstraints) withVolumes(p *pod) (constraints *cluster.Constraints, isLasting bool) {
	if !p.hasClaims {
		return p.constraints.constraints, true
	}
	x.store.volumes.isWanted = true
	claims := translate.ClaimsOf(p.object)
	isLasting = true
	for i := range claims {
		c := &claims[i]
		x.complete(p.object, c)
		if c.Claim != nil && c.Claim.Spec.VolumeName == "" {
			c.Unclaimed = x.unboundOf(volume.GetPersistentVolumeClaimClass(c.Claim))
			isLasting = false // it depends on Nodes
		}
		if c.Claim != nil && slices.Contains(c.Claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
			if owner := x.ownerOf(types.NamespacedName{Namespace: p.object.Namespace, Name: c.Name}); owner != p {
				c.TakenBy = owner.object.Namespace + "/" + owner.object.Name
			}
			isLasting = false // it depends on other pods
		}
	}
	volumes := translate.Volumes(p.object, claims, p.object.Spec.NodeName != "")
	return p.constraints.withVolumes(&volumes, x.store.volumes.version), isLasting
}

// complete adds the objects that belong to a volume claim of a pod, as far as they exist.
func (x *volumeConstraints) complete(p *corev1.Pod, c *translate.PodClaim) {
	known := x.store.volumes
	c.Claim = known.claims[types.NamespacedName{Namespace: p.Namespace, Name: c.Name}]
	if c.Claim == nil {
		return
	}
	c.Volume = known.all[c.Claim.Spec.VolumeName]
	c.Class = known.classes[volume.GetPersistentVolumeClaimClass(c.Claim)]
	if n := x.store.nodes.get(c.Claim.Annotations[volume.AnnSelectedNode]); n != nil {
		c.Host = cmp.Or(n.Labels[corev1.LabelHostname], n.Name)
	}
}

// unboundOf returns the volumes of a class that may still be bound, sorted by name.
func (x *volumeConstraints) unboundOf(class string) []*corev1.PersistentVolume {
	list, ok := x.unbound[class]
	if !ok {
		list = slices.SortedFunc(maps.Values(x.store.volumes.unbound[class]), func(a, b *corev1.PersistentVolume) int { return cmp.Compare(a.Name, b.Name) })
		x.unbound[class] = list
	}
	return list
}

// ownerOf returns the pod that has, or will have, a claim that only one pod may use: the one
// that is bound, else the oldest that asks for a node.
func (x *volumeConstraints) ownerOf(claim types.NamespacedName) *pod {
	if x.owners == nil {
		x.owners = map[types.NamespacedName]*pod{}
		for _, p := range x.store.pods.all {
			if p.object.Spec.NodeName == "" && !x.store.assignments.needsNode(p) {
				continue
			}
			for _, c := range translate.ClaimsOf(p.object) {
				key := types.NamespacedName{Namespace: p.object.Namespace, Name: c.Name}
				if had := x.owners[key]; had == nil || precedes(p, had) {
					x.owners[key] = p
				}
			}
		}
	}
	return x.owners[claim]
}

func precedes(a, b *pod) bool {
	if aBound, bBound := a.object.Spec.NodeName != "", b.object.Spec.NodeName != ""; aBound != bBound {
		return aBound
	}
	return cmp.Or(
		a.object.CreationTimestamp.Compare(b.object.CreationTimestamp.Time),
		cmp.Compare(a.object.Name, b.object.Name), cmp.Compare(a.object.UID, b.object.UID),
	) < 0
}
