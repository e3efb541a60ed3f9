package translate

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"
)

// DaemonPod returns the pod that a DaemonSet will have on a node, as the API server and
// the set's controller make it of the template. class is the runtime class that the
// template names, nil if there is none; ranges are those of the namespace, by name.
//
// What webhooks would change is not known before the first such pod lives.
func DaemonPod(ds *appsv1.DaemonSet, class *nodev1.RuntimeClass, ranges []*corev1.LimitRange) *corev1.Pod {
	template := ds.Spec.Template.DeepCopy()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ds.Namespace, Labels: template.Labels}, Spec: template.Spec}
	Admit(p, class, ranges)
	p.Spec.Tolerations = append(p.Spec.Tolerations, daemonTolerations(p.Spec.HostNetwork)...)
	return p
}

// Admit fills in what a new pod does not say, as the API server does when it takes it.
// class is the runtime class that the pod names, nil if there is none; ranges are those
// of its namespace, by name.
func Admit(p *corev1.Pod, class *nodev1.RuntimeClass, ranges []*corev1.LimitRange) {
	for _, containers := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range containers {
			completeContainer(&containers[i], p.Spec.HostNetwork, ranges)
		}
	}
	completePodLevel(p)
	if class != nil && class.Overhead != nil {
		p.Spec.Overhead = class.Overhead.PodFixed
	}
	if class != nil && class.Scheduling != nil {
		if p.Spec.NodeSelector == nil {
			p.Spec.NodeSelector = map[string]string{}
		}
		maps.Copy(p.Spec.NodeSelector, class.Scheduling.NodeSelector)
		p.Spec.Tolerations = append(p.Spec.Tolerations, class.Scheduling.Tolerations...)
	}
}

// completeContainer fills in what a container does not say: requests from its limits,
// what limit ranges give, and ports of the host's network.
func completeContainer(c *corev1.Container, hostNetwork bool, ranges []*corev1.LimitRange) {
	r := &c.Resources
	fill(&r.Requests, r.Limits)
	for _, lr := range ranges {
		for i := range lr.Spec.Limits {
			if item := &lr.Spec.Limits[i]; item.Type == corev1.LimitTypeContainer {
				fill(&r.Limits, item.Default)
				fill(&r.Requests, item.DefaultRequest)
			}
		}
	}
	for i := range c.Ports {
		if hostNetwork && c.Ports[i].HostPort == 0 {
			c.Ports[i].HostPort = c.Ports[i].ContainerPort
		}
	}
}

// completePodLevel fills in requests of the pod as a whole where it has limits: what the
// containers ask for together, else the limits.
func completePodLevel(p *corev1.Pod) {
	r := p.Spec.Resources
	if r == nil || len(r.Limits) == 0 {
		return
	}
	supported := func(list corev1.ResourceList) corev1.ResourceList {
		list = maps.Clone(list)
		maps.DeleteFunc(list, func(name corev1.ResourceName, _ apiresource.Quantity) bool {
			return !resource.IsSupportedPodLevelResource(name)
		})
		return list
	}
	fill(&r.Requests, supported(resource.AggregateContainerRequests(p, resource.PodResourcesOptions{})))
	fill(&r.Requests, supported(r.Limits))
}

// fill adds what is missing.
func fill(list *corev1.ResourceList, from corev1.ResourceList) {
	for name, amount := range from {
		if _, ok := (*list)[name]; ok {
			continue
		}
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[name] = amount
	}
}

// daemonTolerations are those that the controller of DaemonSets gives to their pods.
func daemonTolerations(hostNetwork bool) []corev1.Toleration {
	tolerations := []corev1.Toleration{
		{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeDiskPressure, Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodePIDPressure, Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule},
	}
	if hostNetwork {
		tolerations = append(tolerations, corev1.Toleration{Key: corev1.TaintNodeNetworkUnavailable, Effect: corev1.TaintEffectNoSchedule})
	}
	for i := range tolerations {
		tolerations[i].Operator = corev1.TolerationOpExists
	}
	return tolerations
}
