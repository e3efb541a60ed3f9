package translate_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

func TestDefaultConstraintsNameWhatIsWrong(t *testing.T) {
	t.Parallel()
	const good = "{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}"
	for name, tc := range map[string]struct{ constraints, want string }{
		"good":               {good, ""},
		"no skew":            {"{topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}", "maxSkew"},
		"no key":             {"{maxSkew: 1, whenUnsatisfiable: ScheduleAnyway}", "topologyKey"},
		"no action":          {"{maxSkew: 1, topologyKey: zone}", "whenUnsatisfiable"},
		"a selector":         {"{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}}", "labelSelector"},
		"an unknown field":   {"{maxSkw: 1}", "maxSkw"},
		"the same one twice": {good + ", " + good, "repeats"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := translate.DefaultConstraints("podTopologySpread: {defaultConstraints: [" + tc.constraints + "]}")
			if tc.want == "" && (err != nil || len(got) != 1) || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%v, %v; want an error about %q", got, err, tc.want)
			}
		})
	}
}

func TestDefaultConstraintsSelectSiblings(t *testing.T) {
	t.Parallel()
	defaults := []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule}}
	pod := func() *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Labels: map[string]string{"app": "web", "tier": "front"}}}
	}
	service := func(ns string, selector map[string]string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns}, Spec: corev1.ServiceSpec{Selector: selector}}
	}
	own := pod()
	own.Spec.TopologySpreadConstraints = defaults
	for name, tc := range map[string]struct {
		pod      *corev1.Pod
		siblings translate.Siblings
		want     string
	}{
		"of a service":           {pod(), translate.Siblings{Services: []*corev1.Service{service("default", map[string]string{"app": "web"})}}, "app=web"},
		"of two services":        {pod(), translate.Siblings{Services: []*corev1.Service{service("default", map[string]string{"app": "web"}), service("default", map[string]string{"tier": "front"})}}, "app=web,tier=front"},
		"of somebody's service":  {pod(), translate.Siblings{Services: []*corev1.Service{service("other", map[string]string{"app": "web"})}}, "none"},
		"of a service of nobody": {pod(), translate.Siblings{Services: []*corev1.Service{service("default", nil)}}, "none"},
		"of a replica set":       {pod(), translate.Siblings{Owned: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}, "app in (web)"},
		"of its own constraints": {own, translate.Siblings{Owned: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}, "null"},
		"of nobody":              {pod(), translate.Siblings{}, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := "none"
			if c := translate.WithDefaults(tc.pod, defaults, tc.siblings).Spec.TopologySpreadConstraints; len(c) > 0 {
				got = metav1.FormatLabelSelector(c[0].LabelSelector)
				if c[0].LabelSelector == nil {
					got = "null"
				}
			}
			if got != tc.want {
				t.Errorf("selects %s, want %s", got, tc.want)
			}
		})
	}
}
