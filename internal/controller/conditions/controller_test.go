package conditions

import (
	"strings"
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
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

// TestConditionsThatChangeAreEvents: also those that are True when they are first written, as
// ValidationSucceeded of a NodePool is. A condition that is not there is Unknown.
func TestConditionsThatChangeAreEvents(t *testing.T) {
	t.Parallel()
	ref := &karpenterv1.NodeClassReference{Group: "g.test", Kind: "Class", Name: "default"}
	pool := func(conditionType string, status metav1.ConditionStatus) client.Object {
		np := &karpenterv1.NodePool{}
		np.Spec.Template.Spec.NodeClassRef = ref
		if status != "" {
			np.Status.Conditions = []metav1.Condition{{Type: conditionType, Status: status, Reason: "Why"}}
		}
		return np
	}
	claim := func(status metav1.ConditionStatus) client.Object {
		nc := &karpenterv1.NodeClaim{Spec: karpenterv1.NodeClaimSpec{NodeClassRef: ref}}
		nc.Status.Conditions = []metav1.Condition{{Type: "Launched", Status: status, Reason: "Why"}}
		return nc
	}
	node := func(status corev1.ConditionStatus) client.Object {
		return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}}}
	}
	for name, c := range map[string]struct {
		before, after client.Object
		events        []string
	}{
		"it becomes true":        {claim("Unknown"), claim("True"), []string{"Normal Launched Condition Launched became True, was Unknown; reason Why"}},
		"it begins true":         {pool("", ""), pool("ValidationSucceeded", "True"), []string{"Normal ValidationSucceeded Condition ValidationSucceeded became True, was Unknown; reason Why"}},
		"it begins unknown":      {pool("", ""), pool("ValidationSucceeded", "Unknown"), nil},
		"it stays":               {claim("True"), claim("True"), nil},
		"others report of Nodes": {node("Unknown"), node("True"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reported := record.NewFakeRecorder(5)
			l := &Loop{
				Conditions: observe.NewConditions([]schema.GroupVersionKind{{Group: "g.test", Kind: "Class"}}, time.Now), Events: observe.NewRecorder(reported, time.Now),
				Metrics: observe.NewMetrics(prometheus.NewRegistry()), Now: time.Now,
			}
			l.changed(c.before, c.after)
			close(reported.Events)
			var got []string
			for e := range reported.Events {
				got = append(got, strings.TrimSpace(e))
			}
			if diff := cmp.Diff(c.events, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}
