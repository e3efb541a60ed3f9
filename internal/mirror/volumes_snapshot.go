package mirror

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/translate"
)

// shaper gives the pods of one snapshot the shapes that their volumes make of them. Pods
// that were alike, and whose volumes ask for the same, are alike still.
type shaper struct {
	store  *Store
	shapes map[volumeShape]*cluster.Shape
	loose  map[string][]*corev1.PersistentVolume // by class, sorted
	first  map[types.NamespacedName]*pod         // by claim; nil until asked for
}

type volumeShape struct {
	*sharedShape
	volumes string
}

func (s *Store) newShaper() *shaper {
	s.volumes.wanted = false
	return &shaper{store: s, shapes: map[volumeShape]*cluster.Shape{}, loose: map[string][]*corev1.PersistentVolume{}}
}

// shape returns everything that decides where a pod can go.
func (sh *shaper) shape(p *pod) *cluster.Shape {
	if len(p.refusedBy) > 0 {
		return sh.withVolumes(p).Without(p.refusedBy...)
	}
	return sh.withVolumes(p)
}

func (sh *shaper) withVolumes(p *pod) *cluster.Shape {
	claims := translate.ClaimsOf(p.Pod)
	if len(claims) == 0 {
		return p.shape.Shape
	}
	sh.store.volumes.wanted = true
	for i := range claims {
		c := &claims[i]
		sh.store.known(p.Pod, c)
		if c.Claim != nil && c.Claim.Spec.VolumeName == "" {
			c.Loose = sh.looseOf(volume.GetPersistentVolumeClaimClass(c.Claim))
		}
		if c.Claim != nil && slices.Contains(c.Claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
			if first := sh.firstOf(types.NamespacedName{Namespace: p.Namespace, Name: c.Name}); first != p {
				c.TakenBy = first.Namespace + "/" + first.Name
			}
		}
	}
	volumes := translate.Volumes(p.Pod, claims, p.Spec.NodeName != "")
	key := volumeShape{p.shape, volumes.String()}
	if sh.shapes[key] == nil {
		sh.shapes[key] = p.shape.WithVolumes(&volumes)
	}
	return sh.shapes[key]
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
