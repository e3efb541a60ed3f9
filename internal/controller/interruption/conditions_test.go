package interruption_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/interruption"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/testkit/fakeapi"
)

// TestAConditionOfANodeIsANotice has an agent in the instance say that it is reclaimed.
func TestAConditionOfANodeIsANotice(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	type outcome struct {
		Deleted   bool
		ReplaceBy string
		Short     int
	}
	for name, c := range map[string]struct {
		condition corev1.NodeCondition
		label     string
		want      outcome
	}{
		"with time left it is replaced before": {
			corev1.NodeCondition{Type: "PreemptionScheduled", Status: "True", Message: "gone at 2026-11-01T12:05:00Z"}, "g.test/class", outcome{ReplaceBy: "2026-11-01T12:04:30Z", Short: 1},
		},
		"with less than a drain takes its claim ends": {
			corev1.NodeCondition{Type: "PreemptionScheduled", Status: "True", Message: "gone at 2026-11-01T12:00:25Z"}, "g.test/class", outcome{Deleted: true, Short: 1},
		},
		"a condition that does not hold": {corev1.NodeCondition{Type: "PreemptionScheduled", Status: "False"}, "g.test/class", outcome{}},
		"a Node of another provider": {
			corev1.NodeCondition{Type: "PreemptionScheduled", Status: "True", Message: "gone at 2026-11-01T12:00:25Z"}, "other.test/class", outcome{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.condition.LastTransitionTime = metav1.NewTime(now)
			controlled := true
			node := &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{c.label: "default"}, OwnerReferences: []metav1.OwnerReference{{Kind: "NodeClaim", Name: "claim", Controller: &controlled}}},
				Spec:       corev1.NodeSpec{ProviderID: instance}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{c.condition}},
			}
			api := fakeapi.New(t, node, &karpenterv1.NodeClaim{
				ObjectMeta: metav1.ObjectMeta{Name: "claim", Finalizers: []string{"test/held"}},
				Spec:       karpenterv1.NodeClaimSpec{NodeClassRef: &karpenterv1.NodeClassReference{}},
				Status: karpenterv1.NodeClaimStatus{ProviderID: instance, NodeName: "node", Conditions: []metav1.Condition{
					{Type: karpenterv1.ConditionTypeInitialized, Status: metav1.ConditionTrue},
				}},
			}).Build()
			notices, err := cloud.NewNodeNotices([]cloud.ConditionNotice{{ConditionType: "PreemptionScheduled", ConditionStatus: "True", Kind: cloud.Reclaimed, EndsRegex: "gone at (.*)"}})
			if err != nil {
				t.Fatal(err)
			}
			var got outcome
			conditions := &interruption.Conditions{Notices: notices, Loop: &interruption.Loop{
				Client: api, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler), Kinds: []schema.GroupVersionKind{{Group: "g.test", Kind: "Class"}},
				Events: observe.NewRecorder(record.NewFakeRecorder(100), func() time.Time { return now }), Metrics: observe.NewMetrics(prometheus.NewRegistry()),
				Short: func(places []catalog.Place, _ time.Duration) { got.Short += len(places) },
			}}
			for range 2 { // the second time changes nothing
				if _, err := conditions.Act(t.Context(), node); err != nil {
					t.Fatal(err)
				}
			}
			claim := &karpenterv1.NodeClaim{}
			if err := api.Get(t.Context(), client.ObjectKey{Name: "claim"}, claim); err != nil {
				t.Fatal(err)
			}
			got.Deleted, got.ReplaceBy = claim.DeletionTimestamp != nil, claim.Annotations[translate.ReplaceByAnnotationKey]
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
