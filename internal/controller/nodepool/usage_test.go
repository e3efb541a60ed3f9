package nodepool

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

func TestCapacityIsWhatTheNodeSaysAndElseWhatWasPromised(t *testing.T) {
	t.Parallel()
	promised := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi")}
	for name, tt := range map[string]struct {
		has  corev1.ResourceList // nil: there is no Node
		want quantity.List
	}{
		"no Node yet":                 {nil, quantity.List{quantity.CPU: 4000, quantity.Memory: 8 << 30}},
		"a Node that says nothing":    {corev1.ResourceList{}, quantity.List{quantity.CPU: 4000, quantity.Memory: 8 << 30}},
		"a Node that says all":        {corev1.ResourceList{"cpu": resource.MustParse("3500m"), "memory": resource.MustParse("7Gi")}, quantity.List{quantity.CPU: 3500, quantity.Memory: 7 << 30}},
		"a Node that says some":       {corev1.ResourceList{"cpu": resource.MustParse("3500m")}, quantity.List{quantity.CPU: 3500, quantity.Memory: 8 << 30}},
		"a Node that says more":       {corev1.ResourceList{"gpu": resource.MustParse("1")}, quantity.List{quantity.CPU: 4000, quantity.Memory: 8 << 30, "gpu": 1}},
		"a Node that says zero of it": {corev1.ResourceList{"cpu": resource.MustParse("0"), "gpu": resource.MustParse("0")}, quantity.List{quantity.CPU: 4000, quantity.Memory: 8 << 30}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var node *corev1.Node
			if tt.has != nil {
				node = &corev1.Node{Status: corev1.NodeStatus{Capacity: tt.has}}
			}
			claim := &karpenterv1.NodeClaim{Status: karpenterv1.NodeClaimStatus{Capacity: promised}}
			got := quantity.List{}
			for _, a := range capacityOf(claim, node) {
				got[a.name] += a.n
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("capacity (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnchangedSharesAreKept: a node is looked at again only if its claim or its Node has changed.
func TestUnchangedSharesAreKept(t *testing.T) {
	t.Parallel()
	claim, node := karpenterv1.NodeClaim{}, corev1.Node{}
	claim.UID, claim.ResourceVersion, claim.Status.ProviderID = "c", "1", "i"
	node.UID, node.ResourceVersion, node.Spec.ProviderID = "n", "2", "i"
	had := map[types.UID]share{"c": {claim: stateOf(&claim), node: stateOf(&node), has: []amount{{"kept", 1}}}}
	for name, tt := range map[string]struct {
		change func(*karpenterv1.NodeClaim, *corev1.Node)
		kept   bool
	}{
		"nothing happened":         {func(*karpenterv1.NodeClaim, *corev1.Node) {}, true},
		"the claim was written to": {func(c *karpenterv1.NodeClaim, _ *corev1.Node) { c.ResourceVersion = "3" }, false},
		"the Node was written to":  {func(_ *karpenterv1.NodeClaim, n *corev1.Node) { n.ResourceVersion = "3" }, false},
		"another Node came":        {func(_ *karpenterv1.NodeClaim, n *corev1.Node) { n.UID = "m" }, false},
		"the Node has gone":        {func(_ *karpenterv1.NodeClaim, n *corev1.Node) { n.Spec.ProviderID = "j" }, false},
	} {
		c, n := claim.DeepCopy(), node.DeepCopy()
		tt.change(c, n)
		got, _ := shares([]karpenterv1.NodeClaim{*c}, []corev1.Node{*n}, had)
		if kept := len(got) == 1 && len(got[0].has) == 1; kept != tt.kept {
			t.Errorf("%s: kept %v, want %v", name, kept, tt.kept)
		}
	}
}

// TestAPoolIsCountedOnlyWhenItMayHaveChanged lists its nodes only when there may be others, and not because
// its own status was just written.
func TestAPoolIsCountedOnlyWhenItMayHaveChanged(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := karpenterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	np := &karpenterv1.NodePool{}
	np.Name, np.Spec.Template.Spec.NodeClassRef = "p", &karpenterv1.NodeClassReference{}
	lists, observed, now := 0, uint64(1), time.Unix(1e9, 0)
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(np).WithStatusSubresource(np).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			lists++
			return c.List(ctx, list, opts...)
		},
	}).Build()
	c := &Controllers{
		Client: api, Metrics: observe.NewMetrics(prometheus.NewRegistry()),
		Types:       func(cloud.ClassRef) ([]*catalog.Type, error) { return nil, nil },
		NodeVersion: func(string) uint64 { return observed }, Now: func() time.Time { return now },
	}
	read := func() *karpenterv1.NodePool {
		var seen karpenterv1.NodePool
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(np), &seen); err != nil {
			t.Fatal(err)
		}
		return &seen
	}
	behind := read()
	for _, step := range []struct {
		what    string
		does    func()
		observe func() *karpenterv1.NodePool
		want    bool
	}{
		{"it is new", func() {}, read, true},
		{"its own status was written", func() {}, read, false},
		{"a cache does not show that yet", func() {}, behind.DeepCopy, false},
		{"a node was seen", func() { observed++ }, read, true},
		{"nothing happened since", func() {}, read, false},
		{"others wrote to the pool", func() {
			changed := read()
			changed.Labels = map[string]string{"a": "b"}
			if err := api.Update(t.Context(), changed); err != nil {
				t.Fatal(err)
			}
		}, read, true},
		{"a minute went by", func() { now = now.Add(countMax) }, read, true},
	} {
		step.does()
		before := lists
		if err := c.reconcileUsage(t.Context(), step.observe()); err != nil {
			t.Fatal(err)
		}
		if got := lists > before; got != step.want {
			t.Errorf("%s: counted %v, want %v", step.what, got, step.want)
		}
	}
}

// TestUsageSaturates adds up nodes that say they have more than can be counted.
func TestUsageSaturates(t *testing.T) {
	t.Parallel()
	vast := corev1.Node{Status: corev1.NodeStatus{Capacity: corev1.ResourceList{"cpu": resource.MustParse("9Ei"), "memory": resource.MustParse("4Ei")}}}
	unclaimed := map[string]*corev1.Node{"a": &vast, "b": &vast, "c": &vast, "d": &vast}
	claim := &karpenterv1.NodeClaim{}
	all := []share{{isUsed: true, has: capacityOf(claim, &vast)}, {isUsed: true, has: capacityOf(claim, &vast)}}
	for name, got := range map[string]quantity.List{"nodes without a claim": usage(nil, unclaimed), "claims": usage(all, nil), "both": usage(all, unclaimed)} {
		if got[quantity.CPU] != quantity.Max || got[quantity.Memory] != quantity.Max {
			t.Errorf("%s have %s, want the most of cpu and memory", name, got)
		}
	}
}
