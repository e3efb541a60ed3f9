package observe

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

func conditionsOfClass() *Conditions {
	return NewConditions([]schema.GroupVersionKind{{Group: "karpenter.test", Kind: "Class"}}, func() time.Time { return time.Unix(1060, 0) })
}

// launched is a claim whose only condition has been so since a time.
func launched(status metav1.ConditionStatus, since int64) *karpenterv1.NodeClaim {
	return &karpenterv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "c1", Labels: map[string]string{"karpenter.sh/nodepool": "general", "karpenter.test/class": "x"}},
		Spec:       karpenterv1.NodeClaimSpec{NodeClassRef: &karpenterv1.NodeClassReference{Group: "karpenter.test", Kind: "Class", Name: "x"}},
		Status: karpenterv1.NodeClaimStatus{Conditions: []metav1.Condition{
			{Type: "Launched", Status: status, Reason: "Why", LastTransitionTime: metav1.Unix(since, 0)},
		}},
	}
}

func TestConditionsShowHowObjectsAre(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, karpenterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	deleting := launched(metav1.ConditionTrue, 1050)
	deleting.DeletionTimestamp, deleting.Finalizers = &metav1.Time{Time: time.Unix(1055, 0)}, []string{"a/b"}
	others := launched(metav1.ConditionTrue, 1050)
	others.Name, others.Spec.NodeClassRef.Kind = "c2", "Other"
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"karpenter.test/class": "x", "karpenter.sh/initialized": "true"}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "Why", LastTransitionTime: metav1.Unix(1000, 0)},
		}},
	}
	c := conditionsOfClass()
	c.Use(fake.NewClientBuilder().WithScheme(scheme).WithObjects(deleting, others, node).Build())
	const of = " karpenter_sh_nodepool=general karpenter_test_class=x name=c1 namespace="
	const old = " group=karpenter.sh kind=NodeClaim name=c1 namespace="
	const ofNode = " karpenter_sh_initialized=true karpenter_sh_nodepool= karpenter_test_class=x name=n1 namespace= reason=Why status=False type=Ready"
	const launched = " reason=Why status=True type=Launched"
	want := map[string]float64{
		"operator_nodeclaim_status_condition_count" + of + launched:                  1,
		"operator_nodeclaim_status_condition_current_status_seconds" + of + launched: 10,
		"operator_nodeclaim_termination_current_time_seconds" + of:                   5,
		"operator_status_condition_count" + old + launched:                           1,
		"operator_status_condition_current_status_seconds" + old + launched:          10,
		"operator_termination_current_time_seconds" + old:                            5,
		"operator_node_status_condition_count" + ofNode:                              1,
		"operator_node_status_condition_current_status_seconds" + ofNode:             60,
	}
	if diff := cmp.Diff(want, scraped(t, c)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	c.Use(nil)
	if got := scraped(t, c); len(got) > 0 {
		t.Errorf("after its reader was taken away it shows %v", got)
	}
}

func TestConditionsCountChanges(t *testing.T) {
	t.Parallel()
	c := conditionsOfClass()
	before, after := launched(metav1.ConditionUnknown, 1000), launched(metav1.ConditionTrue, 1010)
	if got := c.Changed(before, before); got != nil {
		t.Errorf("nothing changed, and it counts %v", got)
	}
	got := c.Changed(before, after)
	want := []Transition{{Condition: after.Status.Conditions[0], From: metav1.ConditionUnknown}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("transitions (-want +got):\n%s", diff)
	}
	fresh := launched(metav1.ConditionTrue, 1010)
	fresh.Status.Conditions = nil
	c.Changed(fresh, after)
	if c.Gone(after) {
		t.Error("an object that was not deleted is counted as gone")
	}
	after.DeletionTimestamp = &metav1.Time{Time: time.Unix(1055, 0)}
	if !c.Gone(after) {
		t.Error("an object that was deleted is not counted as gone")
	}
	foreign := launched(metav1.ConditionTrue, 1010)
	foreign.Spec.NodeClassRef.Group = "other.test"
	if got := c.Changed(before, foreign); got != nil {
		t.Errorf("somebody else's claim is counted: %v", got)
	}
	for _, names := range []struct{ prefix, labels string }{
		{"operator_nodeclaim_", " karpenter_sh_nodepool=general karpenter_test_class=x"}, {"operator_", " group=karpenter.sh kind=NodeClaim"},
	} {
		counted := counts(t, c, names.prefix+"status_condition_transitions_total")
		if diff := cmp.Diff(map[string]float64{names.labels + " reason=Why status=True type=Launched": 2}, counted); diff != "" {
			t.Errorf("transitions_total (-want +got):\n%s", diff)
		}
		lasted := counts(t, c, names.prefix+"status_condition_transition_seconds")
		if diff := cmp.Diff(map[string]float64{names.labels + " status=Unknown type=Launched": 10}, lasted); diff != "" {
			t.Errorf("transition_seconds (-want +got):\n%s", diff)
		}
		ended := counts(t, c, names.prefix+"termination_duration_seconds")
		if diff := cmp.Diff(map[string]float64{names.labels: 5}, ended); diff != "" {
			t.Errorf("termination_duration_seconds (-want +got):\n%s", diff)
		}
	}
}

// counts returns the values of a counter, and the sums of a histogram.
func counts(t *testing.T, c prometheus.Collector, name string) map[string]float64 {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(c)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			key := ""
			for _, l := range m.GetLabel() {
				key += " " + l.GetName() + "=" + l.GetValue()
			}
			got[key] = m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum()
		}
	}
	return got
}

func TestDocsNameTheMetricsOfConditions(t *testing.T) {
	t.Parallel()
	descs := make(chan *prometheus.Desc, 100)
	c := NewConditions([]schema.GroupVersionKind{{Kind: "EC2NodeClass"}, {Kind: "KWOKNodeClass"}}, time.Now)
	c.Describe(descs)
	close(descs)
	rows := map[string]bool{}
	for _, line := range strings.Split(readDoc(t, "../../../docs/reference/metrics.md"), "\n") {
		if cells := strings.Split(line, " | "); strings.HasPrefix(line, "| `operator_") && len(cells) > 2 {
			rows[strings.Trim(cells[0], "|` ")+" "+strings.ReplaceAll(strings.Trim(cells[2], "–"), ", ", ",")] = true
		}
	}
	published := map[string]bool{}
	publish := func(name, labels string) {
		published[name+" "+strings.Replace(labels, "_ec2nodeclass,_kwoknodeclass,", "", 1)] = true
	}
	for desc := range descs {
		name, labels, _ := strings.Cut(parseDesc(t, desc), " ")
		publish(name, labels)
	}
	for _, family := range c.Families() {
		publish(family.Name, strings.Join(family.Labels, ","))
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(published)), slices.Sorted(maps.Keys(rows))); diff != "" {
		t.Errorf("docs/reference/metrics.md (-want +got):\n%s", diff)
	}
}
