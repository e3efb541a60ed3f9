package observe

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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
// nothing is ever out of date, and what is gone is gone from the metrics too. It is a
// prometheus.Collector.
type Objects struct {
	// Conditions is a collector of its own with the same reader.
	Conditions *Conditions

	kinds  []schema.GroupVersionKind
	keys   []string // of the labels that nodes are shown with
	now    func() time.Time
	reader atomic.Pointer[client.Reader]

	allocatable, requests, limits, daemonRequests, daemonLimits, overhead *prometheus.Desc
	lifetime, utilisation, podState                                       *prometheus.Desc
}

// NewObjects returns a collector that shows nothing before it is given a reader. Nodes
// of a class of one of the kinds are shown as managed. Nodes' metrics have a label for
// each of the well-known keys of the provider, besides the usual ones.
func NewObjects(kinds []schema.GroupVersionKind, wellKnown []string, now func() time.Time) *Objects {
	o := &Objects{Conditions: NewConditions(kinds, now), kinds: kinds, now: now}
	var labels []string
	for _, key := range append(usualKeys(), slices.Sorted(slices.Values(wellKnown))...) {
		if name := labelName(key); !slices.Contains(labels, name) {
			o.keys, labels = append(o.keys, key), append(labels, name)
		}
	}
	labels = append(labels, "node_name", "phase", "managed")
	node := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_nodes_"+name, help, slices.Concat(labels, more), nil)
	}
	o.allocatable = node("allocatable", "What pods can use of a node.", "resource_type")
	o.requests = node("total_pod_requests", "Requests of all pods of a node.", "resource_type")
	o.limits = node("total_pod_limits", "Limits of all pods of a node.", "resource_type")
	o.daemonRequests = node("total_daemon_requests", "Requests of the DaemonSet pods of a node.", "resource_type")
	o.daemonLimits = node("total_daemon_limits", "Limits of the DaemonSet pods of a node.", "resource_type")
	o.overhead = node("system_overhead", "What a node keeps from pods.", "resource_type")
	o.lifetime = node("current_lifetime_seconds", "Age of a node.")
	o.utilisation = prometheus.NewDesc(namespace+"_cluster_utilization_percent", "Requests of all pods on nodes, of what the nodes have for pods.", []string{"resource_type"}, nil)
	o.podState = prometheus.NewDesc(namespace+"_pods_state", "Always 1; the labels say how a pod is.", []string{
		"name", "namespace", "owner", "node", "scheduled", "nodepool", "zone", "arch", "capacity_type", "instance_type", "phase", "ready", "managed",
	}, nil)
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

// Use makes the collector read from r, a cache, from now on; nil: from nothing.
func (o *Objects) Use(r client.Reader) {
	o.Conditions.Use(r)
	if r == nil {
		o.reader.Store(nil)
		return
	}
	o.reader.Store(&r)
}

// Describe sends the descriptions.
func (o *Objects) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		o.allocatable, o.requests, o.limits, o.daemonRequests, o.daemonLimits, o.overhead, o.lifetime, o.utilisation, o.podState,
	} {
		ch <- d
	}
}

// Collect sends a picture of the cluster as the cache has it; nothing while it has none.
func (o *Objects) Collect(ch chan<- prometheus.Metric) {
	r := o.reader.Load()
	if r == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTakesMost)
	defer cancel()
	var nodes corev1.NodeList
	var pods corev1.PodList
	for _, list := range []client.ObjectList{&nodes, &pods} {
		if (*r).List(ctx, list, client.UnsafeDisableDeepCopy) != nil {
			return // the cache is not there yet, or not any more
		}
	}
	byName := map[string]*corev1.Node{}
	for i := range nodes.Items {
		byName[nodes.Items[i].Name] = &nodes.Items[i]
	}
	loads := map[string]*load{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		node := byName[pod.Spec.NodeName]
		ch <- o.stateOf(pod, node)
		if node == nil || translate.Terminal(pod) {
			continue
		}
		if loads[node.Name] == nil {
			loads[node.Name] = newLoad()
		}
		loads[node.Name].add(pod)
	}
	o.collectNodes(ch, nodes.Items, loads)
}

// load is what the pods of one node ask for.
type load struct{ requests, limits, daemonRequests, daemonLimits quantity.List }

func newLoad() *load {
	return &load{quantity.List{}, quantity.List{}, quantity.List{}, quantity.List{}}
}

func (l *load) add(pod *corev1.Pod) {
	requests := translate.PodRequests(pod)
	limits := translate.Quantities(resource.PodLimits(pod, resource.PodResourcesOptions{}))
	l.requests.Add(requests)
	l.limits.Add(limits)
	if translate.OwnedByDaemonSet(pod) {
		l.daemonRequests.Add(requests)
		l.daemonLimits.Add(limits)
	}
}

func (o *Objects) collectNodes(ch chan<- prometheus.Metric, nodes []corev1.Node, loads map[string]*load) {
	free, asked := quantity.List{}, quantity.List{}
	for i := range nodes {
		node := &nodes[i]
		l := loads[node.Name]
		if l == nil {
			l = newLoad()
		}
		allocatable := translate.Quantities(node.Status.Allocatable)
		free.Add(allocatable)
		asked.Add(l.requests)
		labels := o.nodeLabels(node)
		for desc, amounts := range map[*prometheus.Desc]quantity.List{
			o.allocatable: allocatable, o.requests: l.requests, o.limits: l.limits, o.daemonRequests: l.daemonRequests,
			o.daemonLimits: l.daemonLimits, o.overhead: translate.Quantities(node.Status.Capacity).MinusFloor(allocatable),
		} {
			for name, amount := range amounts {
				ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, baseUnits(name, amount), slices.Concat(labels, []string{name})...)
			}
		}
		age := o.now().Sub(node.CreationTimestamp.Time).Seconds()
		ch <- prometheus.MustNewConstMetric(o.lifetime, prometheus.GaugeValue, age, labels...)
	}
	for name, amount := range free {
		if amount > 0 {
			ch <- prometheus.MustNewConstMetric(o.utilisation, prometheus.GaugeValue, 100*float64(asked[name])/float64(amount), name)
		}
	}
}

func (o *Objects) nodeLabels(node *corev1.Node) []string {
	values := make([]string, 0, len(o.keys)+4)
	for _, key := range o.keys {
		values = append(values, node.Labels[key])
	}
	return append(values, node.Name, string(node.Status.Phase), strconv.FormatBool(o.managed(node)))
}

func (o *Objects) managed(node *corev1.Node) bool {
	return node != nil && mirror.ManagesNode(o.kinds, node)
}

func (o *Objects) stateOf(pod *corev1.Pod, node *corev1.Node) prometheus.Metric {
	var labels map[string]string
	if node != nil {
		labels = node.Labels
	}
	ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	return prometheus.MustNewConstMetric(o.podState, prometheus.GaugeValue, 1,
		pod.Name, pod.Namespace, owner(pod), pod.Spec.NodeName, strconv.FormatBool(pod.Spec.NodeName != ""),
		labels[karpenterv1.NodePoolLabelKey], labels[corev1.LabelTopologyZone], labels[corev1.LabelArchStable],
		labels[karpenterv1.CapacityTypeLabelKey], labels[corev1.LabelInstanceTypeStable],
		string(pod.Status.Phase), strconv.FormatBool(ready), strconv.FormatBool(o.managed(node)))
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
