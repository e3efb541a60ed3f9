package apply_test

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
)

// withPools returns an API server, and a mirror that knows two pools: limited, which has limits, and
// free.
func withPools(t *testing.T, f *fault) (client.Client, *mirror.Store) {
	t.Helper()
	c := server(t, f)
	informers := &informertest.FakeInformers{Scheme: c.Scheme()}
	store := mirror.NewStore(mirror.Options{Now: func() time.Time { return roadStart }, Manages: func(string, string) bool { return true }})
	if _, err := store.Feed(t.Context(), informers); err != nil {
		t.Fatal(err)
	}
	pools, err := informers.FakeInformerFor(t.Context(), &karpenterv1.NodePool{})
	if err != nil {
		t.Fatal(err)
	}
	class := &karpenterv1.NodeClassReference{Group: "g.test", Kind: "Class", Name: "default"}
	for name, limits := range map[string]corev1.ResourceList{"limited": {corev1.ResourceCPU: resource.MustParse("32")}, "free": nil} {
		np := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
		np.Spec.Limits = limits
		np.Spec.Template.Spec.NodeClassRef = class
		pools.Add(np)
	}
	return c, store
}

// TestTwoLoopsNeverLaunchForTheSameRoom: what one loop decided before the other launched in a
// pool with limits is decided anew; its own launches, and pools without limits, are no matter.
func TestTwoLoopsNeverLaunchForTheSameRoom(t *testing.T) {
	t.Parallel()
	c, store := withPools(t, &fault{})
	poolLaunches := &apply.PoolLaunches{}
	one := &apply.Launcher{Client: c, Mirror: store, PoolLaunches: poolLaunches}
	other := &apply.Launcher{Client: c, Mirror: store, PoolLaunches: poolLaunches}
	launch := func(l *apply.Launcher, pool string, launched int, overtaken bool) {
		t.Helper()
		launches := []plan.Launch{{Pool: pool, Types: []string{"four"}}}
		if was := l.Overtaken(launches); was != overtaken {
			t.Errorf("in pool %s: overtaken %t, want %t", pool, was, overtaken)
		}
		done, err := l.Launch(t.Context(), &plan.Plan{Launches: launches}, "")
		if len(done) != launched || errors.Is(err, apply.ErrOvertaken) != overtaken {
			t.Errorf("in pool %s: launched %d, %v; want %d, overtaken %t", pool, len(done), err, launched, overtaken)
		}
	}
	one.Snapshot()
	other.Snapshot()
	launch(one, "limited", 1, false)
	launch(one, "limited", 1, false)
	launch(other, "limited", 0, true)
	launch(other, "free", 1, false)
	other.Snapshot()
	launch(other, "limited", 1, false)
	launch(one, "limited", 0, true)
}

// TestAClaimWhoseAnswerIsLostCounts: the creation of a claim is done, or not, and its answer does
// not come. The next decision must not have the room of its limits again.
func TestAClaimWhoseAnswerIsLostCounts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault    fault
		launched int
	}{
		"the claim exists":          {fault{at: 1, lost: true}, 1},
		"the claim does not exist":  {fault{at: 1}, 1},
		"it is never known":         {fault{at: 1, until: 10, lost: true}, 0},
		"it is known at the second": {fault{at: 1, until: 2, lost: true}, 1},
		"the second is refused":     {fault{at: 1, until: 2, lost: true, refusal: apierrors.NewTooManyRequests("later", 1)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, store := withPools(t, &tc.fault)
			l := &apply.Launcher{Client: c, Mirror: store, PoolLaunches: &apply.PoolLaunches{}}
			l.Snapshot()
			done, err := l.Launch(t.Context(), &plan.Plan{Launches: []plan.Launch{{Pool: "limited", Types: []string{"four"}}}}, "")
			if len(done) != tc.launched || (err == nil) != (tc.launched > 0) {
				t.Fatalf("launched %d, %v; want %d", len(done), err, tc.launched)
			}
			var claims karpenterv1.NodeClaimList
			if err := c.List(t.Context(), &claims, client.MatchingLabels{karpenterv1.NodePoolLabelKey: "limited"}); err != nil {
				t.Fatal(err)
			}
			nodes := store.Snapshot().Nodes
			if len(claims.Items) != 1 || len(nodes) != 1 || nodes[0].Claim != claims.Items[0].Name {
				t.Errorf("there are %d claims; the mirror counts %v", len(claims.Items), nodes)
			}
		})
	}
}
