package translate

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// Quantities returns a resource list in the core's units: cpu in millicores, everything
// else in whole units, rounded up.
func Quantities(list corev1.ResourceList) quantity.List {
	l := make(quantity.List, len(list))
	for name, q := range list {
		if name == corev1.ResourceCPU {
			l[quantity.CPU] = q.MilliValue()
			continue
		}
		l[string(name)] = q.Value()
	}
	return l
}

// ResourceList is the inverse of Quantities.
func ResourceList(l quantity.List) corev1.ResourceList {
	list := make(corev1.ResourceList, len(l))
	for name, amount := range l {
		switch name {
		case quantity.CPU:
			list[corev1.ResourceCPU] = *resource.NewMilliQuantity(amount, resource.DecimalSI)
		case quantity.Memory, quantity.EphemeralStorage:
			list[corev1.ResourceName(name)] = *resource.NewQuantity(amount, resource.BinarySI)
		default:
			list[corev1.ResourceName(name)] = *resource.NewQuantity(amount, resource.DecimalSI)
		}
	}
	return list
}
