package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestStaticCapacity scales a NodePool with replicas through the scale subresource, past its limit
// and down to nothing, changes its template, and kills the controller while it launches. A pool
// without replicas and its pods live beside it. Never are there more NodeClaims than the limit.
func TestStaticCapacity(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	installDefinitions(t, c)
	installPool(t, c, chaosCPUs)
	args := []string{"--disable-leader-election=true", "--batch-idle-duration", "300ms", "--feature-gates", "StaticCapacity=true"}
	process := controller(t, cluster.Kubeconfig, args...)
	s := &staticPool{client: c}
	s.create(t, 3, 5)
	s.watch(t, 5)

	s.await(t, 3)
	s.scale(t, 10)
	testkit.Eventually(t, patience, func() error { return s.has(t.Context(), 4, 5) })
	process.kill()
	process = controller(t, cluster.Kubeconfig, args...)
	s.await(t, 5)

	deploy(t, c, rollPods) // on whatever nodes
	awaitRunning(t, c, rollPods)
	kept := s.protect(t)
	s.scale(t, 2)
	s.await(t, 2)
	if left := s.claims(t); !left[kept] {
		t.Errorf("the node with the pod that must not be disrupted is gone; %d are left", len(left))
	}

	s.edit(t, func(np *karpenterv1.NodePool) {
		np.Spec.Limits = corev1.ResourceList{"nodes": resource.MustParse("3")}
	})
	s.most.Store(3)
	old := s.claims(t)
	s.edit(t, func(np *karpenterv1.NodePool) { np.Spec.Template.Labels = map[string]string{"generation": "two"} })
	testkit.Eventually(t, 2*patience, func() error {
		for uid := range s.claims(t) {
			if old[uid] && uid != kept {
				return errors.New("a drifted node is still there")
			}
		}
		return s.has(t.Context(), 2, 2)
	})
	if !s.claims(t)[kept] {
		t.Error("the node with the pod that must not be disrupted was replaced")
	}
	awaitRunning(t, c, rollPods+1)

	s.scale(t, 0)
	s.unprotect(t)
	s.await(t, 0)
	if t.Failed() {
		t.Logf("%s", process)
	}
}

// staticPool is the NodePool under test.
type staticPool struct {
	client client.Client
	most   atomic.Int64 // NodeClaims that there may be
}

const staticName = "fixed"

func (s *staticPool) create(t *testing.T, replicas int64, limit int) {
	t.Helper()
	np := &karpenterv1.NodePool{}
	if err := s.client.Get(t.Context(), client.ObjectKey{Name: "general"}, np); err != nil {
		t.Fatal(err)
	}
	fixed := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: staticName}, Spec: np.Spec}
	fixed.Spec.Replicas, fixed.Spec.Weight = &replicas, nil
	fixed.Spec.Limits = corev1.ResourceList{"nodes": resource.MustParse(fmt.Sprint(limit))}
	fixed.Spec.Disruption.Budgets = []karpenterv1.Budget{{Nodes: "2"}}
	if err := s.client.Create(t.Context(), fixed); err != nil {
		t.Fatal(err)
	}
}

// watch fails the test if there are ever more NodeClaims than there may be.
func (s *staticPool) watch(t *testing.T, most int) {
	t.Helper()
	s.most.Store(int64(most))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(20 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			var claims karpenterv1.NodeClaimList
			if err := s.client.List(ctx, &claims, client.MatchingLabels{karpenterv1.NodePoolLabelKey: staticName}); err != nil {
				continue
			}
			if most := s.most.Load(); int64(len(claims.Items)) > most {
				t.Errorf("there are %d NodeClaims, the limit is %d", len(claims.Items), most)
				return
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

func (s *staticPool) edit(t *testing.T, change func(*karpenterv1.NodePool)) {
	t.Helper()
	np := &karpenterv1.NodePool{}
	if err := s.client.Get(t.Context(), client.ObjectKey{Name: staticName}, np); err != nil {
		t.Fatal(err)
	}
	before := np.DeepCopy()
	change(np)
	if err := s.client.Patch(t.Context(), np, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

func (s *staticPool) scale(t *testing.T, replicas int32) {
	t.Helper()
	np := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: staticName}}
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	if err := s.client.SubResource("scale").Update(t.Context(), np, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
}

// claims returns the NodeClaims of the pool that stay.
func (s *staticPool) claims(t *testing.T) map[types.UID]bool {
	t.Helper()
	var claims karpenterv1.NodeClaimList
	if err := s.client.List(t.Context(), &claims, client.MatchingLabels{karpenterv1.NodePoolLabelKey: staticName}); err != nil {
		t.Fatal(err)
	}
	uids := map[types.UID]bool{}
	for i := range claims.Items {
		if claims.Items[i].DeletionTimestamp == nil {
			uids[claims.Items[i].UID] = true
		}
	}
	return uids
}

// has returns an error unless there are so many NodeClaims, all initialized and none deleting, and
// the pool's status says so.
func (s *staticPool) has(ctx context.Context, least, most int) error {
	var claims karpenterv1.NodeClaimList
	if err := s.client.List(ctx, &claims, client.MatchingLabels{karpenterv1.NodePoolLabelKey: staticName}); err != nil {
		return err
	}
	for i := range claims.Items {
		if nc := &claims.Items[i]; nc.DeletionTimestamp != nil || least == most && !meta.IsStatusConditionTrue(nc.Status.Conditions, karpenterv1.ConditionTypeInitialized) {
			return fmt.Errorf("NodeClaim %s is not initialized, or deleting", nc.Name)
		}
	}
	if n := len(claims.Items); n < least || n > most {
		return fmt.Errorf("there are %d NodeClaims, want %d to %d", n, least, most)
	}
	return nil
}

func (s *staticPool) await(t *testing.T, n int) {
	t.Helper()
	testkit.Eventually(t, patience, func() error { return s.has(t.Context(), n, n) })
}

// protect puts a pod that must not be disrupted on a node of the pool, and returns the UID of its
// NodeClaim.
func (s *staticPool) protect(t *testing.T) (kept types.UID) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kept", Annotations: map[string]string{karpenterv1.DoNotDisruptAnnotationKey: "true"}},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{karpenterv1.NodePoolLabelKey: staticName},
			Tolerations:  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers:   []corev1.Container{{Name: "main", Image: "kept"}},
		},
	}
	if err := s.client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patience, func() error {
		if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil || pod.Spec.NodeName == "" {
			return fmt.Errorf("pod kept is on no node: %w", err)
		}
		return nil
	})
	var claims karpenterv1.NodeClaimList
	if err := s.client.List(t.Context(), &claims); err != nil {
		t.Fatal(err)
	}
	for i := range claims.Items {
		if claims.Items[i].Status.NodeName == pod.Spec.NodeName {
			return claims.Items[i].UID
		}
	}
	t.Fatalf("node %s has no NodeClaim", pod.Spec.NodeName)
	return ""
}

func (s *staticPool) unprotect(t *testing.T) {
	t.Helper()
	if err := s.client.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kept"}}); err != nil {
		t.Fatal(err)
	}
}
