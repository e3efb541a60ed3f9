package mirror

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

func TestTypesThatNoPoolAllowsAreLeftOut(t *testing.T) {
	t.Parallel()
	s := newTestStore(atNoon)
	ofType := func(name string) *catalog.Type {
		return &catalog.Type{Name: name, Requirements: label.Requirements{label.InstanceType: label.In(name)}}
	}
	pool := func(name, class string, types ...string) {
		np := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
		np.Spec.Template.Spec.NodeClassRef = &karpenterv1.NodeClassReference{Group: classGroup, Kind: classKind, Name: class}
		if len(types) > 0 {
			np.Spec.Template.Spec.Requirements = []karpenterv1.NodeSelectorRequirementWithMinValues{{Key: label.InstanceType, Operator: "In", Values: types}}
		}
		upsert(s, np)
	}
	allowed := func() (names []string) {
		for _, types := range s.Pools().AllowedTypes() {
			for _, t := range types {
				names = append(names, t.Name)
			}
		}
		return slices.Sorted(slices.Values(names))
	}
	for _, class := range []string{"default", "other", "unused"} {
		s.Pools().SetTypes(cloud.ClassRef{Group: classGroup, Kind: classKind, Name: class}, []*catalog.Type{ofType("large"), ofType("medium"), ofType("small")}, nil)
	}
	if got := allowed(); len(got) > 0 {
		t.Errorf("without a NodePool %v are allowed", got)
	}
	pool("a", "default", "small", "tiny")
	pool("b", "default", "large")
	if got, want := allowed(), []string{"large", "small"}; !slices.Equal(got, want) {
		t.Errorf("two NodePools of one class allow %v, want %v", got, want)
	}
	if all := s.Pools().AllTypes(); len(all) != 1 || len(all[0]) != 3 {
		t.Errorf("all types of the one class in use are %v, want 3", all)
	}
	pool("c", "other")
	if got, want := allowed(), []string{"large", "large", "medium", "small", "small"}; !slices.Equal(got, want) {
		t.Errorf("with a NodePool of another class %v are allowed, want %v", got, want)
	}
}
