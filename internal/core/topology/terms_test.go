package topology_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-scheduler/framework"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// anySelector draws a label selector that the API server would take; nil, now and then.
func anySelector(t *rapid.T, name string) *metav1.LabelSelector {
	key, value := rapid.SampledFrom([]string{"app", "tier", "team"}), rapid.SampledFrom([]string{"a", "b", "c"})
	if rapid.IntRange(0, 5).Draw(t, name+" is nil") == 0 {
		return nil
	}
	s := &metav1.LabelSelector{MatchLabels: rapid.MapOfN(key, value, 0, 2).Draw(t, name+" labels")}
	for range rapid.IntRange(0, 2).Draw(t, name+" expressions") {
		e := metav1.LabelSelectorRequirement{Key: key.Draw(t, "key"), Operator: rapid.SampledFrom([]metav1.LabelSelectorOperator{
			metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist,
		}).Draw(t, "operator")}
		if e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpNotIn {
			e.Values = rapid.SliceOfNDistinct(value, 1, 2, rapid.ID[string]).Draw(t, "values")
		}
		s.MatchExpressions = append(s.MatchExpressions, e)
	}
	return s
}

// TestTermsSelectLikeKubernetes compares which pods a pod's affinity terms select, as read
// from the pod, with kube-scheduler's own reading.
func TestTermsSelectLikeKubernetes(t *testing.T) {
	t.Parallel()
	namespace := rapid.SampledFrom([]string{"one", "two"})
	labels := rapid.MapOfN(rapid.SampledFrom([]string{"app", "tier", "team"}), rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		namespaces := map[string]map[string]string{"one": labels.Draw(t, "labels of one"), "two": labels.Draw(t, "labels of two")}
		owner := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Draw(t, "own namespace"), Labels: map[string]string{"owner": "yes"}}}
		var terms []corev1.PodAffinityTerm
		for range rapid.IntRange(1, 2).Draw(t, "terms") {
			terms = append(terms, corev1.PodAffinityTerm{
				TopologyKey: "zone", LabelSelector: anySelector(t, "selector"), NamespaceSelector: anySelector(t, "namespaces"),
				Namespaces: rapid.SliceOfN(namespace, 0, 2).Draw(t, "named"),
			})
		}
		owner.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
		other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Draw(t, "namespace"), Labels: labels.Draw(t, "labels")}}

		read, err := framework.GetAffinityTerms(owner, terms)
		if err != nil {
			t.Skip("Kubernetes would not have taken the pod:", err)
		}
		want := true
		for i := range read {
			want = want && read[i].Matches(other, namespaces[other.Namespace])
		}
		l := topology.New([]*cluster.Constraints{
			translate.PodConstraints(owner, translate.Vocabulary{}), translate.PodConstraints(other, translate.Vocabulary{}),
		}, namespaces)
		if got := l.Leads(1, 0); got != want {
			t.Fatalf("%+v of a pod in %s select %v in %s: %v, kube-scheduler says %v", terms, owner.Namespace, other.Labels, other.Namespace, got, want)
		}
	})
}
