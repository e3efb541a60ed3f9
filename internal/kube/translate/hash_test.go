package translate

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// TestPoolHashEqualsKarpenters checks hashes that Karpenter computed. Each step
// changes the pool of the step before.
func TestPoolHashEqualsKarpenters(t *testing.T) {
	t.Parallel()
	np := &karpenterv1.NodePool{}
	template := &np.Spec.Template
	template.Spec.NodeClassRef = &karpenterv1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "default"}
	steps := []struct {
		name   string
		change func()
		want   string
	}{
		{"only a class", func() {}, "7428780003907761376"},
		{"Never, as it is read", func() {
			if err := template.Spec.ExpireAfter.UnmarshalJSON([]byte(`"Never"`)); err != nil {
				t.Fatal(err)
			}
		}, "7428780003907761376"},
		{"expireAfter", func() {
			month := 720 * time.Hour
			template.Spec.ExpireAfter = karpenterv1.NillableDuration{Duration: &month}
		}, "12745407319442031341"},
		{"the same expireAfter, as it is read", func() {
			if err := template.Spec.ExpireAfter.UnmarshalJSON([]byte(`"43200m"`)); err != nil {
				t.Fatal(err)
			}
		}, "12745407319442031341"},
		{"a label", func() { template.Labels = map[string]string{"k": "v"} }, "15161600879804609029"},
		{"an annotation", func() { template.Annotations = map[string]string{"a": "b"} }, "1253205914423595842"},
		{"a taint", func() {
			template.Spec.Taints = []corev1.Taint{{Key: "t", Value: "x", Effect: corev1.TaintEffectNoSchedule}}
		}, "7273109960210091878"},
		{"a startup taint", func() {
			template.Spec.StartupTaints = []corev1.Taint{{Key: "s", Effect: corev1.TaintEffectNoExecute}}
		}, "1451707533036324969"},
		{"terminationGracePeriod", func() {
			template.Spec.TerminationGracePeriod = &karpenterv1.Duration{Duration: time.Hour}
		}, "3844462589782954288"},
		{"what is not hashed", func() {
			weight, replicas := int32(7), int64(3)
			np.Spec.Weight, np.Spec.Replicas = &weight, &replicas
			np.Spec.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
			np.Spec.Disruption.ConsolidationPolicy = karpenterv1.ConsolidationPolicyBalanced
			template.Spec.Requirements = []karpenterv1.NodeSelectorRequirementWithMinValues{{Key: "a", Operator: corev1.NodeSelectorOpExists}}
		}, "3844462589782954288"},
	}
	for _, step := range steps {
		step.change()
		if got := PoolHash(np); got != step.want {
			t.Errorf("with %s: PoolHash = %s, want %s", step.name, got, step.want)
		}
	}
}
