package translate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

func amounts(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func TestRequestsOfADaemonAreThoseOfItsPods(t *testing.T) {
	t.Parallel()
	gives := func(limits, requests corev1.ResourceList) []*corev1.LimitRange {
		return []*corev1.LimitRange{{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
			{Type: corev1.LimitTypePod, Max: amounts("cpu", "9")},
			{Type: corev1.LimitTypeContainer, Default: limits, DefaultRequest: requests},
		}}}}
	}
	for name, tc := range map[string]struct {
		has    corev1.ResourceRequirements
		pod    *corev1.ResourceRequirements
		class  *nodev1.RuntimeClass
		ranges []*corev1.LimitRange
		want   quantity.List
	}{
		"requests stand": {
			has: corev1.ResourceRequirements{Requests: amounts("cpu", "100m"), Limits: amounts("cpu", "1")}, want: quantity.List{"cpu": 100, "pods": 1},
		},
		"a limit is a request too": {
			has: corev1.ResourceRequirements{Limits: amounts("cpu", "1")}, want: quantity.List{"cpu": 1000, "pods": 1},
		},
		"a limit range gives what is missing": {
			has: corev1.ResourceRequirements{Requests: amounts("cpu", "100m")}, ranges: gives(amounts("cpu", "2"), amounts("cpu", "1", "memory", "1k")),
			want: quantity.List{"cpu": 100, "memory": 1000, "pods": 1},
		},
		"a container's own limit goes before the range's request": {
			has: corev1.ResourceRequirements{Limits: amounts("cpu", "300m")}, ranges: gives(nil, amounts("cpu", "1")), want: quantity.List{"cpu": 300, "pods": 1},
		},
		"a runtime class adds its overhead": {
			has:   corev1.ResourceRequirements{Requests: amounts("cpu", "100m")},
			class: &nodev1.RuntimeClass{Overhead: &nodev1.Overhead{PodFixed: amounts("cpu", "250m", "memory", "1k")}},
			want:  quantity.List{"cpu": 350, "memory": 1000, "pods": 1},
		},
		"a limit of the whole pod is its request where containers say nothing": {
			has: corev1.ResourceRequirements{Requests: amounts("cpu", "100m")}, pod: &corev1.ResourceRequirements{Limits: amounts("cpu", "1", "memory", "1k")},
			want: quantity.List{"cpu": 100, "memory": 1000, "pods": 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ds := &appsv1.DaemonSet{}
			ds.Spec.Template.Spec.Containers = []corev1.Container{{Resources: tc.has}}
			ds.Spec.Template.Spec.Resources = tc.pod
			if diff := cmp.Diff(tc.want, translate.PodRequests(translate.DaemonPod(ds, tc.class, tc.ranges))); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestADaemonPodGoesWhereItsClassAndControllerLetIt(t *testing.T) {
	t.Parallel()
	ds := &appsv1.DaemonSet{}
	ds.Spec.Template.Spec.NodeSelector = map[string]string{"os": "linux"}
	ds.Spec.Template.Spec.HostNetwork = true
	ds.Spec.Template.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: 80}}}}
	class := &nodev1.RuntimeClass{Scheduling: &nodev1.Scheduling{
		NodeSelector: map[string]string{"kvm": "yes"}, Tolerations: []corev1.Toleration{{Key: "kvm", Operator: corev1.TolerationOpExists}},
	}}
	p := translate.DaemonPod(ds, class, nil)
	if diff := cmp.Diff(map[string]string{"os": "linux", "kvm": "yes"}, p.Spec.NodeSelector); diff != "" {
		t.Errorf("node selector (-want +got):\n%s", diff)
	}
	if ports := translate.HostPorts(p); len(ports) != 1 || ports[0].Port != 80 {
		t.Errorf("host ports %v, want 80: it is on the host's network", ports)
	}
	tolerated := map[string]bool{}
	for _, o := range p.Spec.Tolerations {
		tolerated[o.Key] = true
	}
	for _, key := range []string{"kvm", corev1.TaintNodeUnschedulable, corev1.TaintNodeNotReady, corev1.TaintNodeNetworkUnavailable} {
		if !tolerated[key] {
			t.Errorf("taint %s is not tolerated", key)
		}
	}
	if ds.Spec.Template.Spec.NodeSelector["kvm"] != "" {
		t.Error("the template was changed")
	}
}
