package translate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/core/overlay"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

func TestOverlayPrices(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]overlay.Price{
		"1.5": {Kind: overlay.Absolute, Amount: 1.5}, "0": {Kind: overlay.Absolute},
		"+0.25": {Kind: overlay.Plus, Amount: 0.25}, "-0.25": {Kind: overlay.Plus, Amount: -0.25},
		"+10%": {Kind: overlay.Times, Amount: 1.1}, "-25%": {Kind: overlay.Times, Amount: 0.75}, "-100%": {Kind: overlay.Times},
	} {
		no := &karpenterv1alpha1.NodeOverlay{}
		if strings.ContainsAny(text, "+-") {
			no.Spec.PriceAdjustment = &text
		} else {
			no.Spec.Price = &text
		}
		got := translate.Overlay(no, translate.NewVocabulary(nil, nil))
		if diff := cmp.Diff(want, got.Price); diff != "" || got.Invalid != "" {
			t.Errorf("%s: %s (-want +got):\n%s", text, got.Invalid, diff)
		}
	}
}

func TestWhatIsWrongWithAnOverlayIsNamed(t *testing.T) {
	t.Parallel()
	requirement := func(key string, op corev1.NodeSelectorOperator, values ...string) karpenterv1alpha1.NodeOverlaySpec {
		return karpenterv1alpha1.NodeOverlaySpec{Requirements: []karpenterv1alpha1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}
	}
	for want, spec := range map[string]karpenterv1alpha1.NodeOverlaySpec{
		"":                               requirement("karpenter.sh/nodepool", corev1.NodeSelectorOpIn, "general"),
		"spec.requirements[0].key":       requirement("karpenter.sh/initialized", corev1.NodeSelectorOpExists),
		"spec.requirements[0].values[0]": requirement("team", corev1.NodeSelectorOpIn, "a b"),
		"spec.requirements[0]":           requirement("cpus", "Gt", "many"),
		"spec.capacity[memory]":          {Capacity: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}},
		"spec.capacity[example.com/x]":   {Capacity: corev1.ResourceList{"example.com/x": resource.MustParse("-1")}},
		"spec.price":                     {Price: new("1e300")},
	} {
		no := &karpenterv1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: "o"}, Spec: spec}
		err := translate.ValidateOverlay(no, translate.NewVocabulary(nil, nil))
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want+":") {
			t.Errorf("%v, want %s", err, want)
		}
		if got := translate.Overlay(no, translate.NewVocabulary(nil, nil)); (got.Invalid == "") != (want == "") {
			t.Errorf("%s: invalid %q", want, got.Invalid)
		}
	}
}
