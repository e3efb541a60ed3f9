package mirror

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
)

func TestShortOfferingsAreUnavailableInTheNextSnapshot(t *testing.T) {
	t.Parallel()
	now := noon
	s := newTestStore(func() time.Time { return now })
	s.pools.objects["general"] = &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}, Spec: karpenterv1.NodePoolSpec{
		Template: karpenterv1.NodeClaimTemplate{Spec: karpenterv1.NodeClaimTemplateSpec{
			NodeClassRef: &karpenterv1.NodeClassReference{Group: classGroup, Kind: classKind, Name: "default"},
		}},
	}}
	s.Pools().SetTypes(cloud.ClassRef{Group: classGroup, Kind: classKind, Name: "default"}, []*catalog.Type{{Name: "large", Offerings: []catalog.Offering{
		{Zone: "a", CapacityType: "spot", PriceHourly: 1, Priced: true, Available: true},
		{Zone: "b", CapacityType: "spot", PriceHourly: 1, Priced: true, Available: true},
	}}}, nil)
	offerings := func() []catalog.Offering { return s.Snapshot().Pools[0].Types[0].Offerings }

	s.Pools().MarkUnavailable([]catalog.Place{{Type: "large", Zone: "a", CapacityType: "spot"}}, time.Minute)
	if o := offerings(); o[0].Available || !o[1].Available {
		t.Errorf("just after the report: %+v", o)
	}
	now = now.Add(time.Minute)
	if o := offerings(); !o[0].Available || o[0].Cost() <= o[1].Cost() {
		t.Errorf("a minute later it should be for sale, and count as dearer: %+v", o)
	}
	s.Pools().MarkReclaimed(catalog.Place{Type: "large", Zone: "b", CapacityType: "spot"})
	if o := offerings(); !o[1].Available || o[1].Cost() <= 1 {
		t.Errorf("where a node was taken back it should count as dearer: %+v", o)
	}
}

// TestOtherTypesCountAsAnEvent: other instance types raise the event count, the same ones do not.
func TestOtherTypesCountAsAnEvent(t *testing.T) {
	t.Parallel()
	s := newTestStore(func() time.Time { return noon })
	class := cloud.ClassRef{Group: classGroup, Kind: classKind, Name: "default"}
	types := []*catalog.Type{{Name: "large"}}
	s.Pools().SetTypes(class, types, nil)
	before := s.EventCount()
	if s.Pools().SetTypes(class, types, nil); s.EventCount() != before {
		t.Error("the same types raise the event count")
	}
	if s.Pools().SetTypes(class, []*catalog.Type{{Name: "large"}}, nil); s.EventCount() == before {
		t.Error("other types do not raise the event count")
	}
}
