package translate

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// ValidatePool checks of a NodePool what its CRD cannot. The vocabulary says which
// labels the pool may speak of. The error names every field that is wrong, in the form
// of the API server's own errors.
func ValidatePool(np *karpenterv1.NodePool, v Vocabulary) error {
	template := field.NewPath("spec", "template")
	errs := validateLabels(template.Child("metadata", "labels"), np.Spec.Template.Labels, v)
	errs = append(errs, validateTaints(template.Child("spec"), &np.Spec.Template.Spec)...)
	for i := range np.Spec.Template.Spec.Requirements {
		path := template.Child("spec", "requirements").Index(i)
		errs = append(errs, validateRequirement(path, &np.Spec.Template.Spec.Requirements[i], v)...)
	}
	return errs.ToAggregate()
}

func validateLabels(path *field.Path, labels map[string]string, v Vocabulary) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		errs = append(errs, validateKey(path.Key(key), key, v)...)
		errs = append(errs, validateLabelValue(path.Key(key), labels[key])...)
	}
	return errs
}

// validateKey checks a label key that users may or may not speak of.
func validateKey(path *field.Path, key string, v Vocabulary) field.ErrorList {
	if key == karpenterv1.NodePoolLabelKey {
		return field.ErrorList{field.Invalid(path, key, "the label is restricted: every node of the pool carries it already")}
	}
	errs := metav1validation.ValidateLabelName(key, path)
	if v.Restricted(key) {
		errs = append(errs, field.Invalid(path, key, "the label is restricted"))
	}
	return errs
}

func validateLabelValue(path *field.Path, value string) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range validation.IsValidLabelValue(value) {
		errs = append(errs, field.Invalid(path, value, problem))
	}
	return errs
}

// validateTaints checks both lists of taints; a pair of key and effect may stand only
// once in the two of them.
func validateTaints(path *field.Path, spec *karpenterv1.NodeClaimTemplateSpec) field.ErrorList {
	type pair struct {
		key    string
		effect corev1.TaintEffect
	}
	seen := map[pair]bool{}
	var errs field.ErrorList
	check := func(path *field.Path, t corev1.Taint) {
		errs = append(errs, validateTaint(path, t)...)
		p := pair{t.Key, t.Effect}
		if seen[p] {
			errs = append(errs, field.Duplicate(path, t.Key+":"+string(t.Effect)))
		}
		seen[p] = true
	}
	for i, t := range spec.Taints {
		check(path.Child("taints").Index(i), t)
	}
	for i, t := range spec.StartupTaints {
		check(path.Child("startupTaints").Index(i), t)
	}
	return errs
}

func validateTaint(path *field.Path, t corev1.Taint) field.ErrorList {
	var errs field.ErrorList
	if t.Key == "" {
		errs = append(errs, field.Required(path.Child("key"), "a taint needs a key"))
	} else {
		errs = append(errs, metav1validation.ValidateLabelName(t.Key, path.Child("key"))...)
	}
	if t.Value != "" {
		errs = append(errs, metav1validation.ValidateLabelName(t.Value, path.Child("value"))...)
	}
	effects := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
	if t.Effect != "" && !slices.Contains(effects, t.Effect) {
		errs = append(errs, field.NotSupported(path.Child("effect"), t.Effect, effects))
	}
	return errs
}

func validateRequirement(path *field.Path, r *karpenterv1.NodeSelectorRequirementWithMinValues, v Vocabulary) field.ErrorList {
	key := NormalKey(r.Key)
	errs := validateKey(path.Child("key"), key, v)
	for i, value := range r.Values {
		errs = append(errs, validateLabelValue(path.Child("values").Index(i), value)...)
	}
	if _, err := label.Parse(label.Operator(r.Operator), r.Values); err != nil {
		errs = append(errs, field.Invalid(path, key, err.Error()))
	}
	if r.Operator == corev1.NodeSelectorOpIn {
		errs = append(errs, validateIn(path.Child("values"), key, r)...)
	}
	return errs
}

// validateIn checks that enough of the values of an In requirement can ever be met.
func validateIn(path *field.Path, key string, r *karpenterv1.NodeSelectorRequirementWithMinValues) field.ErrorList {
	if len(r.Values) == 0 {
		return field.ErrorList{field.Required(path, "operator In needs a value for "+key)}
	}
	minValues := 0
	if r.MinValues != nil {
		minValues = *r.MinValues
	}
	if len(r.Values) < minValues {
		return field.ErrorList{field.TooFew(path, len(r.Values), minValues)}
	}
	known := knownValues(key)
	if known == nil {
		return nil
	}
	valid := slices.DeleteFunc(slices.Clone(r.Values), func(value string) bool { return !slices.Contains(known, value) })
	if len(valid) < max(minValues, 1) {
		return field.ErrorList{field.Invalid(path, strings.Join(r.Values, ","), "too few of the values of "+key+" exist; there are "+strings.Join(known, ", "))}
	}
	return nil
}

// knownValues returns all the values that a label can have, or nil if that is not known.
func knownValues(key string) []string {
	if key == karpenterv1.CapacityTypeLabelKey {
		return []string{karpenterv1.CapacityTypeSpot, karpenterv1.CapacityTypeOnDemand, karpenterv1.CapacityTypeReserved}
	}
	return nil
}
