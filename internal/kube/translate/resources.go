package translate

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// Quantities returns a resource list in the core's units, see Amount.
func Quantities(list corev1.ResourceList) quantity.List {
	l := make(quantity.List, len(list))
	for name, q := range list {
		l[string(name)] = Amount(name, q)
	}
	return l
}

// Amount returns a quantity in the core's units: cpu in millicores, everything else in whole units,
// rounded away from zero. It does not call Value and MilliValue for quantities that exceed an int64,
// because their result is arbitrary then (0 for a cpu of 9Ei).
func Amount(name corev1.ResourceName, q resource.Quantity) int64 {
	approximately := q.AsApproximateFloat64()
	if name == corev1.ResourceCPU {
		approximately *= 1000
	}
	switch {
	case approximately >= quantity.Max:
		return quantity.Max
	case approximately <= -quantity.Max:
		return -quantity.Max
	case approximately < 0: // of these, too, not all are returned right
		q = q.DeepCopy()
		q.Neg()
		return -Amount(name, q)
	case name == corev1.ResourceCPU:
		return quantity.Clamp(q.MilliValue())
	default:
		return quantity.Clamp(q.Value())
	}
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
