package mirror

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// siblings are the objects that say which pods belong together: Services and the controllers
// of pods. They matter only if the cluster has default spread constraints.
type siblings struct {
	constraints []corev1.TopologySpreadConstraint // the cluster's defaults

	services  map[types.UID]*corev1.Service
	selectors map[types.UID]*metav1.LabelSelector // of controllers
}

func newSiblings(constraints []corev1.TopologySpreadConstraint) *siblings {
	return &siblings{constraints: constraints, services: map[types.UID]*corev1.Service{}, selectors: map[types.UID]*metav1.LabelSelector{}}
}

// addOwner records the selector of a controller and reports whether the controller is new. The
// selector of a controller never changes.
func (x *siblings) addOwner(owner client.Object, selector *metav1.LabelSelector) (isNew bool) {
	_, known := x.selectors[owner.GetUID()]
	x.selectors[owner.GetUID()] = selector
	return !known
}

func (x *siblings) removeOwner(owner client.Object) { delete(x.selectors, owner.GetUID()) }

// withDefaults returns the pod with the cluster's default constraints, if it has any.
func (x *siblings) withDefaults(p *corev1.Pod) *corev1.Pod {
	if len(x.constraints) == 0 {
		return p
	}
	var found translate.Siblings
	for _, svc := range x.services {
		found.Services = append(found.Services, svc)
	}
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil {
		found.Owned = x.selectors[owner.UID]
	}
	return translate.WithDefaults(p, x.constraints, found)
}
