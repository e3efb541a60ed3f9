package translate

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// selector returns the core's form of a label selector. A nil one selects nothing, an
// empty one everything.
func selector(s *metav1.LabelSelector) (cluster.Selector, error) {
	if s == nil {
		return cluster.Selector{}, nil
	}
	out := cluster.Selector{Some: true, Requirements: label.OfLabels(s.MatchLabels)}
	for _, e := range s.MatchExpressions {
		q, err := label.Parse(label.Operator(e.Operator), e.Values)
		if err != nil {
			return cluster.Selector{}, fmt.Errorf("label selector: %s: %w", e.Key, err)
		}
		out.Requirements.Add(e.Key, q)
	}
	return out, nil
}

// narrowed returns a selector that also asks for the pod's own values of the keys, or
// for any but these. A key that the pod does not have is left out.
func narrowed(s cluster.Selector, labels map[string]string, keys []string, mismatch bool) cluster.Selector {
	if len(keys) > 0 {
		s.Requirements = s.Requirements.Intersect(nil) // it may be another's
	}
	for _, key := range keys {
		value, ok := labels[key]
		switch {
		case !ok || !s.Some:
		case mismatch:
			s.Requirements.Add(key, label.NotIn(value))
		default:
			s.Requirements.Add(key, label.In(value))
		}
	}
	return s
}

// addRules reads everything by which a pod is placed in relation to others, the
// preferences in the order in which they are given up. It returns what cannot be read.
func addRules(sh *cluster.Constraints, p *corev1.Pod) (problems []string) {
	note := func(err error) {
		if err != nil {
			problems = append(problems, err.Error())
		}
	}
	var softSpread []cluster.Preference
	for i := range p.Spec.TopologySpreadConstraints {
		c := &p.Spec.TopologySpreadConstraints[i]
		sp, err := spread(c, p.Labels)
		note(err)
		if c.WhenUnsatisfiable == corev1.ScheduleAnyway {
			softSpread = append(softSpread, cluster.Preference{Spread: &sp})
			continue
		}
		sh.Spread = append(sh.Spread, sp)
	}
	if a := p.Spec.Affinity; a != nil {
		if a.PodAffinity != nil {
			terms, err := podTerms(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, p)
			note(err)
			sh.Affinity = terms
			preferences, err := podPreferences(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, p)
			note(err)
			for i := range preferences {
				sh.Preferences = append(sh.Preferences, cluster.Preference{Affinity: &preferences[i]})
			}
		}
		if a.PodAntiAffinity != nil {
			terms, err := podTerms(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, p)
			note(err)
			sh.AntiAffinity = terms
			preferences, err := podPreferences(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, p)
			note(err)
			for i := range preferences {
				sh.Preferences = append(sh.Preferences, cluster.Preference{AntiAffinity: &preferences[i]})
			}
		}
		if a.NodeAffinity != nil {
			sh.Preferences = append(sh.Preferences, nodePreferences(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)...)
		}
	}
	sh.Preferences = append(sh.Preferences, softSpread...)
	return problems
}

func spread(c *corev1.TopologySpreadConstraint, labels map[string]string) (cluster.Spread, error) {
	s, err := selector(c.LabelSelector)
	out := cluster.Spread{
		Key: NormalKey(c.TopologyKey), MaxSkew: c.MaxSkew, Selector: narrowed(s, labels, c.MatchLabelKeys, false),
		IgnoreAffinity: c.NodeAffinityPolicy != nil && *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyIgnore,
		HonorTaints:    c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor,
	}
	if c.MinDomains != nil {
		out.MinDomains = *c.MinDomains
	}
	return out, err
}

func podTerms(terms []corev1.PodAffinityTerm, p *corev1.Pod) (out []cluster.PodTerm, err error) {
	for i := range terms {
		t, termErr := podTerm(&terms[i], p)
		err = cmp.Or(err, termErr)
		out = append(out, t)
	}
	return out, err
}

func podTerm(t *corev1.PodAffinityTerm, p *corev1.Pod) (cluster.PodTerm, error) {
	s, err := selector(t.LabelSelector)
	s = narrowed(s, p.Labels, t.MatchLabelKeys, false)
	out := cluster.PodTerm{Key: NormalKey(t.TopologyKey), Selector: narrowed(s, p.Labels, t.MismatchLabelKeys, true), Namespaces: t.Namespaces}
	if len(t.Namespaces) == 0 && t.NamespaceSelector == nil {
		out.Namespaces = []string{p.Namespace}
	}
	ns, nsErr := selector(t.NamespaceSelector)
	out.NamespaceSelector = ns
	return out, cmp.Or(err, nsErr)
}

// podPreferences returns preferred terms, heaviest first.
func podPreferences(terms []corev1.WeightedPodAffinityTerm, p *corev1.Pod) (out []cluster.PodTerm, err error) {
	terms = slices.Clone(terms)
	slices.SortStableFunc(terms, func(a, b corev1.WeightedPodAffinityTerm) int { return cmp.Compare(b.Weight, a.Weight) })
	for i := range terms {
		t, termErr := podTerm(&terms[i].PodAffinityTerm, p)
		err = cmp.Or(err, termErr)
		out = append(out, t)
	}
	return out, err
}

// nodePreferences returns preferred node affinity, heaviest first. A term that cannot be read
// is left out: nobody depends on it.
func nodePreferences(terms []corev1.PreferredSchedulingTerm) (out []cluster.Preference) {
	terms = slices.Clone(terms)
	slices.SortStableFunc(terms, func(a, b corev1.PreferredSchedulingTerm) int { return cmp.Compare(b.Weight, a.Weight) })
	for _, t := range terms {
		r := label.Requirements{}
		readable := true
		for _, e := range t.Preference.MatchExpressions {
			q, err := label.Parse(label.Operator(e.Operator), e.Values)
			readable = readable && err == nil
			r.Add(NormalKey(e.Key), q)
		}
		if readable && len(r) > 0 {
			out = append(out, cluster.Preference{Node: r})
		}
	}
	return out
}
