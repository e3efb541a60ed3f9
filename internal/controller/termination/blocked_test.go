package termination

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/testkit/fakeapi"
)

// classless is a cloud that only knows its node classes.
type classless struct{ cloud.Provider }

func (classless) ClassKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{{Group: "karpenter.test", Kind: "Class"}}
}

func TestADrainThatStandsStillNamesWhatKeepsIt(t *testing.T) {
	t.Parallel()
	began := metav1.NewTime(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	finalizers := []string{karpenterv1.TerminationFinalizer}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", DeletionTimestamp: &began, Finalizers: finalizers, Labels: map[string]string{"karpenter.test/class": "x"}},
		Spec:       corev1.NodeSpec{ProviderID: "test://1"},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	claim := &karpenterv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "c1", DeletionTimestamp: &began, Finalizers: finalizers},
		Status:     karpenterv1.NodeClaimStatus{ProviderID: "test://1"},
	}
	on := func(name string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{"app": name}},
			Spec:       corev1.PodSpec{NodeName: "n1"},
		}
	}
	held, guarded := on("held"), on("guarded")
	held.Annotations = map[string]string{karpenterv1.DoNotDisruptAnnotationKey: "true"}
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "quorum"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded"}}},
	}
	now := began.Add(20 * time.Second)
	reported := record.NewFakeRecorder(20)
	c := &Controller{
		Client: fakeapi.New(t, node, claim, held, guarded, budget).Build(), Cloud: classless{}, Now: func() time.Time { return now },
		Metrics: observe.NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler),
	}
	c.Events = observe.NewRecorder(reported, c.Now)
	c.evictor = apply.NewEvictor(c.Client, c.Now, c.reportEviction) // it is not started: nobody leaves
	observe := func(after time.Duration) string {
		t.Helper()
		now = began.Add(after)
		if _, err := c.controller().Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "n1"}}); err != nil {
			t.Fatal(err)
		}
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
			t.Fatal(err)
		}
		return condition.ForNodeClaim(claim).Get(karpenterv1.ConditionTypeDrained).Message
	}
	if got := observe(20 * time.Second); got != "" {
		t.Errorf("after 20s it says %q, but most drains take so long", got)
	}
	const want = "pod ns/guarded since 2026-11-21T12:00:00Z: PodDisruptionBudget quorum; " +
		"pod ns/held since 2026-11-21T12:00:00Z: annotation karpenter.sh/do-not-disrupt"
	version := ""
	for _, after := range []time.Duration{30 * time.Second, 31 * time.Second, 35 * time.Second} {
		if got := observe(after); got != want {
			t.Errorf("after %s condition Drained says %q, want %q", after, got, want)
		}
		if version != "" && claim.ResourceVersion != version {
			t.Errorf("after %s the claim was written though nothing changed", after)
		}
		version = claim.ResourceVersion
	}
	close(reported.Events)
	named := false
	for text := range reported.Events {
		named = named || strings.HasPrefix(text, "Warning FailedDraining") && strings.HasSuffix(text, want)
	}
	if !named {
		t.Error("no event names the pods")
	}
}
