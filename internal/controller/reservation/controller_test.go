package reservation_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/reservation"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/testkit/fakeapi"
)

const reservationKey = "g.test/reservation"

// oneInstance is a cloud with one, of a capacity type.
type oneInstance struct {
	cloud.Provider
	capacityType string
	asked        int
}

func (c *oneInstance) ClassKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{{Group: "g.test", Version: "v1", Kind: "Class"}}
}

func (c *oneInstance) Vocabulary() cloud.Vocabulary {
	return cloud.Vocabulary{ReservationKey: reservationKey, ReservationKeys: []string{reservationKey, reservationKey + "-type"}}
}

func (c *oneInstance) List(context.Context) ([]cloud.Instance, error) {
	c.asked++
	return []cloud.Instance{{ID: "i-1", Labels: map[string]string{karpenterv1.CapacityTypeLabelKey: c.capacityType}}}, nil
}

// TestDemotion looks at a claim and its Node after what became of their reservation.
func TestDemotion(t *testing.T) {
	t.Parallel()
	in := map[string]string{karpenterv1.CapacityTypeLabelKey: "reserved", reservationKey: "cr-1", reservationKey + "-type": "default", "team": "a"}
	out := map[string]string{karpenterv1.CapacityTypeLabelKey: "on-demand", "team": "a"}
	for name, c := range map[string]struct {
		is                  string
		instance            string
		claimHas, nodeHas   map[string]string
		claimWant, nodeWant map[string]string
		asked               int
	}{
		"the reservation is there":                         {"reserved", "i-1", in, in, in, in, 1},
		"the reservation has ended":                        {"on-demand", "i-1", in, in, out, out, 1},
		"a Node that is not registered has nothing to say": {"on-demand", "i-1", in, map[string]string{"team": "a"}, out, map[string]string{"team": "a"}, 1},
		"what the cloud does not show is left alone":       {"on-demand", "i-2", in, in, in, in, 1},
		"after a crash between Node and claim":             {"on-demand", "i-1", in, out, out, out, 1},
		"without a claim in a reservation nobody is asked": {"on-demand", "i-1", out, out, out, out, 0},
		"a claim without an instance is in none":           {"on-demand", "", in, in, in, in, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := &karpenterv1.NodeClaim{
				ObjectMeta: metav1.ObjectMeta{Name: "claim", Labels: c.claimHas},
				Spec:       karpenterv1.NodeClaimSpec{NodeClassRef: &karpenterv1.NodeClassReference{Group: "g.test", Kind: "Class", Name: "default"}},
				Status:     karpenterv1.NodeClaimStatus{ProviderID: c.instance},
			}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: c.nodeHas}, Spec: corev1.NodeSpec{ProviderID: "i-1"}}
			var listed map[string]string // the labels of the Node as a cache shows it to all
			api := fakeapi.New(t, claim, node).WithInterceptorFuncs(interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					err := c.List(ctx, list, opts...)
					if nodes, ok := list.(*corev1.NodeList); ok && len(nodes.Items) > 0 {
						listed = nodes.Items[0].Labels
					}
					return err
				},
			}).Build()
			account := &oneInstance{capacityType: c.is}
			loop := &reservation.Loop{Client: api, Cloud: account, Metrics: observe.NewMetrics(prometheus.NewRegistry()), Now: time.Now, Log: slog.New(slog.DiscardHandler)}
			if err := loop.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.nodeHas, listed); listed != nil && diff != "" {
				t.Errorf("the cache's own Node was changed (-was +is):\n%s", diff)
			}
			for _, obj := range []client.Object{claim, node} {
				if err := api.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff([]map[string]string{c.claimWant, c.nodeWant}, []map[string]string{claim.Labels, node.Labels}); diff != "" {
				t.Errorf("labels of claim and Node (-want +got):\n%s", diff)
			}
			if account.asked != c.asked {
				t.Errorf("the cloud was asked %d times, want %d", account.asked, c.asked)
			}
		})
	}
}
