package mirror

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// siblings are the objects that tell which pods belong together. They are watched only
// when the cluster has default spread constraints.
type siblings struct {
	services  map[types.UID]*corev1.Service
	selectors map[types.UID]*metav1.LabelSelector // of controllers
}

// siblingKinds are services and the controllers of pods.
func (s *Store) siblingKinds() []watched {
	return []watched{
		{&corev1.Service{}, on(s.upsertService), on(s.removeService)},
		{&appsv1.ReplicaSet{}, on(func(o *appsv1.ReplicaSet) { s.upsertOwner(o, o.Spec.Selector) }), on(removeOwner[*appsv1.ReplicaSet](s))},
		{&appsv1.StatefulSet{}, on(func(o *appsv1.StatefulSet) { s.upsertOwner(o, o.Spec.Selector) }), on(removeOwner[*appsv1.StatefulSet](s))},
		{&corev1.ReplicationController{}, on(func(o *corev1.ReplicationController) {
			s.upsertOwner(o, &metav1.LabelSelector{MatchLabels: o.Spec.Selector})
		}), on(removeOwner[*corev1.ReplicationController](s))},
	}
}

func (s *Store) upsertService(svc *corev1.Service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.siblings.services[svc.UID] = svc
	s.reshape(svc.Namespace)
}

func (s *Store) removeService(svc *corev1.Service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.siblings.services, svc.UID)
	s.reshape(svc.Namespace)
}

func (s *Store) upsertOwner(o client.Object, selector *metav1.LabelSelector) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.siblings.selectors[o.GetUID()]
	s.siblings.selectors[o.GetUID()] = selector
	if !known { // selectors of controllers never change
		s.reshape(o.GetNamespace())
	}
}

func removeOwner[T client.Object](s *Store) func(T) {
	return func(o T) {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.siblings.selectors, o.GetUID())
	}
}

// reshape finds the shapes of a namespace's pending pods anew: who belongs together has
// changed.
func (s *Store) reshape(namespace string) {
	for _, p := range s.pods {
		if p.Namespace == namespace && p.asksForNode {
			had := p.shape
			p.shape = s.shape(p.Pod)
			if had.pods--; had.pods == 0 {
				delete(s.shapes, had.key)
			}
		}
	}
}

// withDefaults returns the pod with the cluster's default constraints, if it has any.
func (s *Store) withDefaults(p *corev1.Pod) *corev1.Pod {
	if len(s.opts.DefaultConstraints) == 0 {
		return p
	}
	var found translate.Siblings
	for _, svc := range s.siblings.services {
		found.Services = append(found.Services, svc)
	}
	if owner := metav1.GetControllerOf(p); owner != nil {
		found.Owned = s.siblings.selectors[owner.UID]
	}
	return translate.WithDefaults(p, s.opts.DefaultConstraints, found)
}
