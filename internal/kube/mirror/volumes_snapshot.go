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

// shaper gives the pods of one snapshot the shapes that their volumes make of them. Pods
// that were alike, and whose volumes ask for the same, are alike still.
type shaper struct {
	store *Store
	loose map[string][]*corev1.PersistentVolume // by class, sorted
	first map[types.NamespacedName]*pod         // by claim; nil until asked for
}

func (s *Store) newShaper() *shaper {
	s.volumes.wanted = false
	return &shaper{store: s, loose: map[string][]*corev1.PersistentVolume{}}
}

// shape returns everything that decides where a pod can go. It is lasting if the next snapshots
// will say the same until something is heard of the pod, or of claims, volumes or classes.
func (sh *shaper) shape(p *pod) (shape *cluster.Shape, lasting bool) {
	if shape, lasting = sh.withVolumes(p); len(p.refusedBy) > 0 {
		return shape.Without(p.refusedBy...), false
	}
	return shape, lasting
}

func (sh *shaper) withVolumes(p *pod) (shape *cluster.Shape, lasting bool) {
	if !p.claims {
		return p.shape.Shape, true
	}
	sh.store.volumes.wanted = true
	claims := translate.ClaimsOf(p.Pod)
	lasting = true
	for i := range claims {
		c := &claims[i]
		sh.store.known(p.Pod, c)
		if c.Claim != nil && c.Claim.Spec.VolumeName == "" {
			c.Loose = sh.looseOf(volume.GetPersistentVolumeClaimClass(c.Claim))
			lasting = false // it depends on Nodes
		}
		if c.Claim != nil && slices.Contains(c.Claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
			if first := sh.firstOf(types.NamespacedName{Namespace: p.Namespace, Name: c.Name}); first != p {
				c.TakenBy = first.Namespace + "/" + first.Name
			}
			lasting = false // it depends on other pods
		}
	}
	volumes := translate.Volumes(p.Pod, claims, p.Spec.NodeName != "")
	return p.shape.withVolumes(&volumes, sh.store.volumes.changes), lasting
}

// withVolumes returns the shape with volumes. It is the same one for volumes that ask for the
// same, as long as nothing is heard of volumes: changes counts what was. That bounds how many
// there are, as does the shape's own life.
func (sh *sharedShape) withVolumes(v *cluster.Volumes, changes uint64) *cluster.Shape {
	if sh.storing != changes {
		sh.with, sh.storing = map[string]*cluster.Shape{}, changes
	}
	key := v.String()
	if sh.with[key] == nil {
		sh.with[key] = sh.WithVolumes(v)
	}
	return sh.with[key]
}

func (sh *shaper) looseOf(class string) []*corev1.PersistentVolume {
	list, ok := sh.loose[class]
	if !ok {
		list = slices.SortedFunc(maps.Values(sh.store.volumes.loose[class]), func(a, b *corev1.PersistentVolume) int { return cmp.Compare(a.Name, b.Name) })
		sh.loose[class] = list
	}
	return list
}

// firstOf returns the pod that has, or will have, a claim that only one may use: the one
// that is bound, else the oldest that asks for a node.
func (sh *shaper) firstOf(claim types.NamespacedName) *pod {
	if sh.first == nil {
		sh.first = map[types.NamespacedName]*pod{}
		for _, p := range sh.store.pods {
			if p.Spec.NodeName == "" && !sh.store.asks(p) {
				continue
			}
			for _, c := range translate.ClaimsOf(p.Pod) {
				key := types.NamespacedName{Namespace: p.Namespace, Name: c.Name}
				if had := sh.first[key]; had == nil || before(p, had) {
					sh.first[key] = p
				}
			}
		}
	}
	return sh.first[claim]
}

func before(a, b *pod) bool {
	if aBound, bBound := a.Spec.NodeName != "", b.Spec.NodeName != ""; aBound != bBound {
		return aBound
	}
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID)) < 0
}
