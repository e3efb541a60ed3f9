package observe

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-helpers/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// Objects shows each Node and each Pod as metrics, read from the cache when asked. So
// nothing is ever out of date, and what is gone is gone from the metrics too. It is a Source.
type Objects struct {
	// Conditions is a source of its own with the same reader.
	Conditions *Conditions

	kinds  []schema.GroupVersionKind
	keys   []string // of the labels that nodes are shown with
	labels []string // of the metrics of nodes, the usual ones
	now    func() time.Time
	reader atomic.Pointer[client.Reader]
}

// NewObjects returns a source that shows nothing before it is given a reader. Nodes
// of a class of one of the kinds are shown as managed. Nodes' metrics have a label for
// each of the well-known keys of the provider, besides the usual ones.
func NewObjects(kinds []schema.GroupVersionKind, wellKnown []string, now func() time.Time) *Objects {
	o := &Objects{Conditions: NewConditions(kinds, now), kinds: kinds, now: now}
	for _, key := range append(usualKeys(), slices.Sorted(slices.Values(wellKnown))...) {
		if name := labelName(key); !slices.Contains(o.labels, name) {
			o.keys, o.labels = append(o.keys, key), append(o.labels, name)
		}
	}
	o.labels = append(o.labels, "node_name", "phase", "managed")
	return o
}

// usualKeys are the labels that the core knows well.
func usualKeys() []string {
	return []string{
		karpenterv1.NodePoolLabelKey, corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelInstanceTypeStable,
		corev1.LabelArchStable, corev1.LabelOSStable, karpenterv1.CapacityTypeLabelKey, corev1.LabelWindowsBuild,
	}
}

// labelName returns the metric label for a label key: what follows the slash.
func labelName(key string) string {
	return strings.NewReplacer("-", "_", ".", "_").Replace(key[strings.LastIndex(key, "/")+1:])
}

// Use makes the source read from r, a cache, from now on; nil: from nothing.
func (o *Objects) Use(r client.Reader) {
	o.Conditions.Use(r)
	if r == nil {
		o.reader.Store(nil)
		return
	}
	o.reader.Store(&r)
}

// Families returns a picture of the cluster as the cache has it; families without series while it has none.
func (o *Objects) Families() []Family {
	nodes, pods := o.read()
	byName := make(map[string]*shownNode, len(nodes))
	shown := make([]shownNode, len(nodes))
	for i := range nodes {
		shown[i] = o.show(&nodes[i])
		byName[nodes[i].Name] = &shown[i]
	}
	known := map[*corev1.Container]asked{}
	for i := range pods {
		if node := byName[pods[i].Spec.NodeName]; node != nil && !translate.Terminal(&pods[i]) {
			node.add(&pods[i], askedBy(&pods[i], known))
		}
	}
	amounts := func(name, help string, of func(*shownNode) quantity.List) Family {
		return o.ofNodes(name, help, shown, func(n *shownNode, write func(float64, ...string)) {
			amounts := of(n)
			for _, resource := range slices.Sorted(maps.Keys(amounts)) {
				write(baseUnits(resource, amounts[resource]), resource)
			}
		}, "resource_type")
	}
	return []Family{
		amounts("allocatable", "What pods can use of a node.", func(n *shownNode) quantity.List { return n.allocatable }),
		amounts("total_pod_requests", "Requests of all pods of a node.", func(n *shownNode) quantity.List { return n.requests }),
		amounts("total_pod_limits", "Limits of all pods of a node.", func(n *shownNode) quantity.List { return n.limits }),
		amounts("total_daemon_requests", "Requests of the DaemonSet pods of a node.", func(n *shownNode) quantity.List { return n.daemonRequests }),
		amounts("total_daemon_limits", "Limits of the DaemonSet pods of a node.", func(n *shownNode) quantity.List { return n.daemonLimits }),
		amounts("system_overhead", "What a node keeps from pods.", func(n *shownNode) quantity.List { return n.overhead }),
		o.ofNodes("current_lifetime_seconds", "Age of a node.", shown, func(n *shownNode, write func(float64, ...string)) { write(n.age) }),
		utilisation(shown),
		o.podState(pods, byName),
	}
}

// read returns what the cache has: nothing while it has not all.
func (o *Objects) read() ([]corev1.Node, []corev1.Pod) {
	r := o.reader.Load()
	if r == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTakesMost)
	defer cancel()
	var nodes corev1.NodeList
	var pods corev1.PodList
	for _, list := range []client.ObjectList{&nodes, &pods} {
		if (*r).List(ctx, list, client.UnsafeDisableDeepCopy) != nil {
			return nil, nil // the cache is not there yet, or not any more
		}
	}
	return nodes.Items, pods.Items
}

// ofNodes returns a family with series of each node, which are made by each.
func (o *Objects) ofNodes(name, help string, nodes []shownNode, each func(*shownNode, func(float64, ...string)), more ...string) Family {
	return Family{Name: namespace + "_nodes_" + name, Help: help, Labels: slices.Concat(o.labels, more), Each: func(write func(float64, ...string)) {
		var values []string
		for i := range nodes {
			each(&nodes[i], func(value float64, more ...string) {
				values = append(append(values[:0], nodes[i].values...), more...)
				write(value, values...)
			})
		}
	}}
}

// utilisation returns the family of what pods ask for of what all nodes have.
func utilisation(nodes []shownNode) Family {
	return Family{
		Name: namespace + "_cluster_utilization_percent", Help: "Requests of all pods on nodes, of what the nodes have for pods.",
		Labels: []string{"resource_type"}, Each: func(write func(float64, ...string)) {
			free, asked := quantity.List{}, quantity.List{}
			for i := range nodes {
				free.Add(nodes[i].allocatable)
				asked.Add(nodes[i].requests)
			}
			for _, name := range slices.Sorted(maps.Keys(free)) {
				if free[name] > 0 {
					write(100*float64(asked[name])/float64(free[name]), name)
				}
			}
		},
	}
}

// shownNode is a node as its metrics show it, with what its pods ask for.
type shownNode struct {
	node                                           *corev1.Node
	values                                         []string // of the usual labels
	managed                                        bool
	age                                            float64
	allocatable, overhead                          quantity.List
	requests, limits, daemonRequests, daemonLimits quantity.List
}

func (o *Objects) show(node *corev1.Node) shownNode {
	allocatable := translate.Quantities(node.Status.Allocatable)
	n := shownNode{
		node: node, managed: mirror.ManagesNode(o.kinds, node), age: o.now().Sub(node.CreationTimestamp.Time).Seconds(),
		allocatable: allocatable, overhead: translate.Quantities(node.Status.Capacity).MinusFloor(allocatable),
		requests: quantity.List{}, limits: quantity.List{}, daemonRequests: quantity.List{}, daemonLimits: quantity.List{},
	}
	for _, key := range o.keys {
		n.values = append(n.values, node.Labels[key])
	}
	n.values = append(n.values, node.Name, string(node.Status.Phase), strconv.FormatBool(n.managed))
	return n
}

func (n *shownNode) add(pod *corev1.Pod, a asked) {
	n.requests.Add(a.requests)
	n.limits.Add(a.limits)
	if translate.OwnedByDaemonSet(pod) {
		n.daemonRequests.Add(a.requests)
		n.daemonLimits.Add(a.limits)
	}
}

// asked is what a pod asks for. It is not changed.
type asked struct{ requests, limits quantity.List }

// askedBy returns what a pod asks for. Pods of a workload have the slice of their containers in common, with all
// that is read here, and known has what was found for it; unless kubelet reports that a pod was resized.
func askedBy(pod *corev1.Pod, known map[*corev1.Container]asked) asked {
	if len(pod.Spec.Containers) == 0 || resized(&pod.Status) {
		return newAsked(pod)
	}
	key := &pod.Spec.Containers[0]
	a, is := known[key]
	if !is {
		a = newAsked(pod)
		known[key] = a
	}
	return a
}

func newAsked(pod *corev1.Pod) asked {
	return asked{translate.PodRequests(pod), translate.Quantities(resource.PodLimits(pod, resource.PodResourcesOptions{}))}
}

// resized reports whether a status says what containers have, which may be other than what the spec asks for.
func resized(s *corev1.PodStatus) bool {
	has := func(c corev1.ContainerStatus) bool { return c.Resources != nil || len(c.AllocatedResources) > 0 }
	return s.Resources != nil || len(s.AllocatedResources) > 0 || slices.ContainsFunc(s.ContainerStatuses, has) || slices.ContainsFunc(s.InitContainerStatuses, has)
}

// podState returns the family of how pods are.
func (*Objects) podState(pods []corev1.Pod, nodes map[string]*shownNode) Family {
	return Family{
		Name: namespace + "_pods_state", Help: "Always 1; the labels say how a pod is.", Labels: []string{
			"name", "namespace", "owner", "node", "scheduled", "nodepool", "zone", "arch", "capacity_type", "instance_type", "phase", "ready", "managed",
		}, Each: func(write func(float64, ...string)) {
			for i := range pods {
				pod := &pods[i]
				var labels map[string]string
				managed := false
				if n := nodes[pod.Spec.NodeName]; n != nil {
					labels, managed = n.node.Labels, n.managed
				}
				ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
					return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
				})
				write(1, pod.Name, pod.Namespace, owner(pod), pod.Spec.NodeName, strconv.FormatBool(pod.Spec.NodeName != ""),
					labels[karpenterv1.NodePoolLabelKey], labels[corev1.LabelTopologyZone], labels[corev1.LabelArchStable],
					labels[karpenterv1.CapacityTypeLabelKey], labels[corev1.LabelInstanceTypeStable],
					string(pod.Status.Phase), strconv.FormatBool(ready), strconv.FormatBool(managed))
			}
		},
	}
}

// owner returns the path of the pod's first owner in the API; empty: it has none.
func owner(pod *corev1.Pod) string {
	if len(pod.OwnerReferences) == 0 {
		return ""
	}
	o := pod.OwnerReferences[0]
	return "/apis/" + o.APIVersion + "/namespaces/" + pod.Namespace + "/" + strings.ToLower(o.Kind) + "s/" + o.Name
}

// baseUnits returns an amount in cores, bytes or pieces.
func baseUnits(name string, amount int64) float64 {
	if name == quantity.CPU {
		return float64(amount) / 1000
	}
	return float64(amount)
}
