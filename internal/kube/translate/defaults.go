package translate

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// schedulerConfig is what --scheduler-config holds.
type schedulerConfig struct {
	PodTopologySpread struct {
		DefaultConstraints []corev1.TopologySpreadConstraint `json:"defaultConstraints"`
	} `json:"podTopologySpread"`
}

// DefaultConstraints reads the spread that kube-scheduler gives to pods without one, as
// YAML or JSON; empty text: none. The error names the field that is wrong.
func DefaultConstraints(text string) ([]corev1.TopologySpreadConstraint, error) {
	var c schedulerConfig
	if err := yaml.UnmarshalStrict([]byte(text), &c); err != nil {
		return nil, fmt.Errorf("scheduler config: %w", err)
	}
	seen := map[string]bool{}
	for i := range c.PodTopologySpread.DefaultConstraints {
		d := &c.PodTopologySpread.DefaultConstraints[i]
		at := fmt.Sprintf("scheduler config: podTopologySpread.defaultConstraints[%d]", i)
		id := d.TopologyKey + "/" + string(d.WhenUnsatisfiable)
		switch {
		case d.MaxSkew <= 0:
			return nil, fmt.Errorf("%s.maxSkew is %d; it must be positive", at, d.MaxSkew)
		case len(validation.IsQualifiedName(d.TopologyKey)) > 0:
			return nil, fmt.Errorf("%s.topologyKey %q is no label key", at, d.TopologyKey)
		case d.WhenUnsatisfiable != corev1.DoNotSchedule && d.WhenUnsatisfiable != corev1.ScheduleAnyway:
			return nil, fmt.Errorf("%s.whenUnsatisfiable is %q; it may be DoNotSchedule or ScheduleAnyway", at, d.WhenUnsatisfiable)
		case d.LabelSelector != nil || len(d.MatchLabelKeys) > 0:
			return nil, fmt.Errorf("%s: labelSelector and matchLabelKeys are found for each pod and must not be given", at)
		case seen[id]:
			return nil, fmt.Errorf("%s repeats topologyKey %s with %s", at, d.TopologyKey, d.WhenUnsatisfiable)
		}
		seen[id] = true
	}
	return c.PodTopologySpread.DefaultConstraints, nil
}

// Siblings are the objects that say which pods belong together.
type Siblings struct {
	Services []*corev1.Service
	// Owned is the selector of the ReplicaSet, StatefulSet or ReplicationController that
	// controls the pod; nil: none does.
	Owned *metav1.LabelSelector
}

// WithDefaults returns the pod with the default constraints, selecting its siblings. A
// pod that has constraints of its own, or no siblings, is returned as it is.
func WithDefaults(p *corev1.Pod, defaults []corev1.TopologySpreadConstraint, s Siblings) *corev1.Pod {
	if len(defaults) == 0 || len(p.Spec.TopologySpreadConstraints) > 0 {
		return p
	}
	selector := metav1.LabelSelector{MatchLabels: map[string]string{}}
	for _, svc := range s.Services {
		if svc.Namespace == p.Namespace && len(svc.Spec.Selector) > 0 && labels.SelectorFromSet(svc.Spec.Selector).Matches(labels.Set(p.Labels)) {
			for k, v := range svc.Spec.Selector {
				selector.MatchLabels[k] = v
			}
		}
	}
	if s.Owned != nil {
		for k, v := range s.Owned.MatchLabels {
			selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{Key: k, Operator: metav1.LabelSelectorOpIn, Values: []string{v}})
		}
		selector.MatchExpressions = append(selector.MatchExpressions, s.Owned.MatchExpressions...)
	}
	if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		return p
	}
	with := *p
	with.Spec.TopologySpreadConstraints = make([]corev1.TopologySpreadConstraint, len(defaults))
	for i := range defaults {
		with.Spec.TopologySpreadConstraints[i] = defaults[i]
		with.Spec.TopologySpreadConstraints[i].LabelSelector = &selector
	}
	return &with
}
