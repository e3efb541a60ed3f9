package mirror

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpenterv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// TestOverlaysInSnapshots follows the types of a pool while overlays come, change and go. What the
// provider says stays as it is, and as long as nothing changes the types are the very same.
func TestOverlaysInSnapshots(t *testing.T) {
	t.Parallel()
	s := newTestStore(atNoon)
	class := cloud.ClassRef{Group: classGroup, Kind: classKind, Name: "default"}
	upsert(s, &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}, Spec: karpenterv1.NodePoolSpec{
		Template: karpenterv1.NodeClaimTemplate{Spec: karpenterv1.NodeClaimTemplateSpec{
			NodeClassRef: &karpenterv1.NodeClassReference{Group: classGroup, Kind: classKind, Name: "default"},
		}},
	}})
	s.Pools().SetTypes(class, []*catalog.Type{{
		Name: "large", Requirements: label.Requirements{label.InstanceType: label.In("large")},
		Offerings: []catalog.Offering{{Zone: "a", CapacityType: "spot", PriceHourly: 1, Priced: true, Available: true}},
	}}, nil)
	check := func(when string, price float64, fuses int64, conflict string) {
		t.Helper()
		is, again := s.Snapshot().Pools[0].Types[0], s.Snapshot().Pools[0].Types[0]
		if is != again {
			t.Errorf("%s: another type in the second snapshot", when)
		}
		if is.Offerings[0].PriceHourly != price || is.Capacity["example.com/fuse"] != fuses {
			t.Errorf("%s: price %v, %d fuses, want %v, %d", when, is.Offerings[0].PriceHourly, is.Capacity["example.com/fuse"], price, fuses)
		}
		if types, _ := s.Pools().TypesOf(class); types[0].Offerings[0].PriceHourly != 1 {
			t.Errorf("%s: the provider's price is %v", when, types[0].Offerings[0].PriceHourly)
		}
		types, _ := s.Pools().TypesOf(class)
		overlaid, repriced := s.Overlays().Overlaid("general", types)
		if overlaid[0].Offerings[0].PriceHourly != price || repriced != (price != 1) || s.Overlays().OverlaidCapacity("general", "large")["example.com/fuse"] != fuses {
			t.Errorf("%s: a launch is at %v, repriced %t", when, overlaid[0].Offerings[0].PriceHourly, repriced)
		}
		o := testOverlay("b", "")
		if why, known := s.Overlays().Conflict(o); why != conflict || known != (when == "two of one weight") {
			t.Errorf("%s: conflict %q, known %t, want %q", when, why, known, conflict)
		}
	}
	check("none", 1, 0, "")
	first := testOverlay("c", "3")
	first.Spec.Capacity = corev1.ResourceList{"example.com/fuse": resource.MustParse("2")}
	upsert(s, first)
	check("one", 3, 2, "")
	status := first.DeepCopy()
	status.Status.Conditions = []metav1.Condition{{Type: "Ready"}}
	upsert(s, status)
	check("a status", 3, 2, "")
	upsert(s, testOverlay("b", "4"))
	check("two of one weight", 3, 2, "another overlay of weight 1 sets the price of large in NodePool general")
	remove(s, first)
	remove(s, testOverlay("b", "4"))
	check("gone", 1, 0, "")
}

func testOverlay(name, price string) *karpenterv1alpha1.NodeOverlay {
	weight := int32(1)
	return &karpenterv1alpha1.NodeOverlay{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1},
		Spec: karpenterv1alpha1.NodeOverlaySpec{
			Requirements: []karpenterv1alpha1.NodeSelectorRequirement{{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"large"}}},
			Price:        &price, Weight: &weight,
		},
	}
}
