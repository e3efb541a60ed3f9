package observe

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
)

// operatorNamespace is that of metrics that tools know from many operators.
const operatorNamespace = "operator"

// scrapeTakesMost bounds one reading of the cache, which takes no time when it is filled.
const scrapeTakesMost = 5 * time.Second

// Conditions shows the status conditions of claims, pools, node classes and Nodes of ours, and of capacity buffers: how they are
// now, read from the cache when asked, and how often and after how long they changed. It is a
// Source of the former, and a prometheus.Collector of the latter.
type Conditions struct {
	// Buffers: the cache has CapacityBuffers. It is set once, before Use.
	Buffers bool

	classes []schema.GroupVersionKind
	now     func() time.Time
	reader  atomic.Pointer[client.Reader]
	kinds   []*conditionKind
}

// conditionKind is one kind of object and its metrics. Those under the older names, which
// have the kind as a label, are nil for Nodes.
type conditionKind struct {
	name       string
	group      string
	object     client.Object
	list       client.ObjectList
	labelKeys  []string
	under, old *conditionMetrics
}

// conditionMetrics are the six metrics of one kind, or of all kinds under the older names.
type conditionMetrics struct {
	prefix             string
	labels             []string // all metrics have these last
	transitions        *prometheus.CounterVec
	lasted, terminated *prometheus.HistogramVec
}

// Transition is a condition that changed its status.
type Transition struct {
	metav1.Condition
	// From is empty when the condition was not there.
	From metav1.ConditionStatus
}

// NewConditions returns what shows no object before it is given a reader.
// Classes are the kinds of our provider's node classes: other objects are not ours.
func NewConditions(classes []schema.GroupVersionKind, now func() time.Time) *Conditions {
	var classKeys []string
	for _, k := range classes {
		classKeys = append(classKeys, karpenterv1.NodeClassLabelKey(k.Group, strings.ToLower(k.Kind)))
	}
	owned := append(classKeys, karpenterv1.NodePoolLabelKey)
	old := newConditionMetrics("", []string{"group", "kind"})
	kinds := []*conditionKind{
		{name: "NodeClaim", group: karpenterv1.Group, object: &karpenterv1.NodeClaim{}, list: &karpenterv1.NodeClaimList{}, labelKeys: owned, old: old},
		{name: "NodePool", group: karpenterv1.Group, object: &karpenterv1.NodePool{}, list: &karpenterv1.NodePoolList{}, old: old},
		{name: "Node", object: &corev1.Node{}, list: &corev1.NodeList{}, labelKeys: append(slices.Clone(owned), karpenterv1.NodeInitializedLabelKey)},
		{name: "CapacityBuffer", group: autoscalingv1beta1.GroupVersion.Group, object: &autoscalingv1beta1.CapacityBuffer{}, list: &autoscalingv1beta1.CapacityBufferList{}, old: old},
	}
	for _, k := range classes {
		switch k.Kind {
		case "EC2NodeClass":
			kinds = append(kinds, &conditionKind{name: k.Kind, group: k.Group, object: &awsv1.EC2NodeClass{}, list: &awsv1.EC2NodeClassList{}, old: old})
		case "KWOKNodeClass":
			kinds = append(kinds, &conditionKind{name: k.Kind, group: k.Group, object: &kwokv1alpha1.KWOKNodeClass{}, list: &kwokv1alpha1.KWOKNodeClassList{}, old: old})
		default:
		}
	}
	for _, k := range kinds {
		var labels []string
		for _, key := range k.labelKeys {
			labels = append(labels, strings.NewReplacer("/", "_", "-", "_", ".", "_").Replace(key))
		}
		k.under = newConditionMetrics(strings.ToLower(k.name)+"_", labels)
	}
	return &Conditions{classes: classes, now: now, kinds: kinds}
}

// newConditionMetrics makes the metrics of one kind. All have its labels last.
func newConditionMetrics(prefix string, more []string) *conditionMetrics {
	labels := func(first ...string) []string { return slices.Concat(first, more) }
	histogram := func(name, help string, of ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: operatorNamespace, Name: prefix + name, Help: help, Buckets: prometheus.ExponentialBuckets(0.5, 2, 15),
		}, labels(of...))
	}
	return &conditionMetrics{
		prefix: operatorNamespace + "_" + prefix, labels: more,
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: operatorNamespace, Name: prefix + "status_condition_transitions_total", Help: "Changes of conditions, by what they became.",
		}, labels("type", "status", "reason")),
		lasted:     histogram("status_condition_transition_seconds", "How long conditions had been as they were when they changed.", "type", "status"),
		terminated: histogram("termination_duration_seconds", "How long objects took from their deletion until they were gone."),
	}
}

// Objects returns an empty object of each kind whose conditions are shown.
func (c *Conditions) Objects() []client.Object {
	objects := make([]client.Object, 0, len(c.kinds))
	for _, k := range c.shown() {
		objects = append(objects, k.object.DeepCopyObject().(client.Object))
	}
	return objects
}

// shown returns the kinds whose objects are in the cache.
func (c *Conditions) shown() []*conditionKind {
	return slices.DeleteFunc(slices.Clone(c.kinds), func(k *conditionKind) bool {
		_, is := k.object.(*autoscalingv1beta1.CapacityBuffer)
		return is && !c.Buffers
	})
}

// Use makes the source read from r, a cache, from now on; nil: from nothing.
func (c *Conditions) Use(r client.Reader) {
	if r == nil {
		c.reader.Store(nil)
		return
	}
	c.reader.Store(&r)
}

// Changed counts what is different between two states of one object, and returns it.
func (c *Conditions) Changed(before, after client.Object) []Transition {
	k := c.kindOf(after)
	if k == nil || !c.ours(after) {
		return nil
	}
	had := conditionsOf(before)
	var turned []Transition
	for _, now := range conditionsOf(after) {
		was := meta.FindStatusCondition(had, now.Type)
		if was != nil && was.Status == now.Status {
			continue
		}
		t := Transition{Condition: now}
		if was != nil {
			t.From = was.Status
		}
		turned = append(turned, t)
		k.each(after, func(m *conditionMetrics, labels []string) {
			m.transitions.WithLabelValues(slices.Concat([]string{now.Type, string(now.Status), now.Reason}, labels)...).Inc()
			if was != nil {
				lasted := now.LastTransitionTime.Sub(was.LastTransitionTime.Time).Seconds()
				m.lasted.WithLabelValues(slices.Concat([]string{was.Type, string(was.Status)}, labels)...).Observe(lasted)
			}
		})
	}
	return turned
}

// Gone counts an object of ours that is gone, and reports whether it had been marked for deletion
// before.
func (c *Conditions) Gone(o client.Object) bool {
	k, at := c.kindOf(o), o.GetDeletionTimestamp()
	if k == nil || at == nil || !c.ours(o) {
		return false
	}
	k.each(o, func(m *conditionMetrics, labels []string) {
		m.terminated.WithLabelValues(labels...).Observe(c.now().Sub(at.Time).Seconds())
	})
	return true
}

// Describe sends the descriptions.
func (c *Conditions) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range c.metrics() {
		m.transitions.Describe(ch)
		m.lasted.Describe(ch)
		m.terminated.Describe(ch)
	}
}

// Collect sends what was counted.
func (c *Conditions) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c.metrics() {
		m.transitions.Collect(ch)
		m.lasted.Collect(ch)
		m.terminated.Collect(ch)
	}
}

// Families returns the present conditions of the objects in the cache.
func (c *Conditions) Families() []Family {
	objects := c.read()
	var families []Family
	for _, m := range c.metrics() {
		families = append(families, c.familiesOf(m, objects)...)
	}
	return families
}

// read returns our objects of each kind that the cache has; nothing while it has not all.
func (c *Conditions) read() map[*conditionKind][]client.Object {
	r := c.reader.Load()
	if r == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTakesMost)
	defer cancel()
	all := map[*conditionKind][]client.Object{}
	for _, k := range c.shown() {
		list := k.list.DeepCopyObject().(client.ObjectList)
		if (*r).List(ctx, list, client.UnsafeDisableDeepCopy) != nil {
			return nil // the cache is not there yet, or not any more
		}
		objects, err := meta.ExtractList(list)
		if err != nil {
			return nil
		}
		for _, o := range objects {
			if obj, ok := o.(client.Object); ok && c.ours(obj) {
				all[k] = append(all[k], obj)
			}
		}
	}
	return all
}

// familiesOf returns the families of one set of metrics, each with the series of all objects that it shows.
func (c *Conditions) familiesOf(m *conditionMetrics, objects map[*conditionKind][]client.Object) []Family {
	now := c.now()
	each := func(do func(o client.Object, labels []string)) {
		for _, k := range c.kinds {
			if k.under != m && k.old != m {
				continue
			}
			for _, o := range objects[k] {
				do(o, k.labelsOf(m, o))
			}
		}
	}
	condition := func(name, help string, value func(metav1.Condition) float64) Family {
		labels := slices.Concat([]string{"namespace", "name", "type", "status", "reason"}, m.labels)
		return Family{Name: m.prefix + name, Help: help, Labels: labels, Each: func(write func(float64, ...string)) {
			var values []string
			each(func(o client.Object, labels []string) {
				for _, condition := range conditionsOf(o) {
					values = append(values[:0], o.GetNamespace(), o.GetName(), condition.Type, string(condition.Status), condition.Reason)
					values = append(values, labels...)
					write(value(condition), values...)
				}
			})
		}}
	}
	return []Family{
		condition("status_condition_count", "Always 1; the labels say how a condition of an object is.", func(metav1.Condition) float64 { return 1 }),
		condition("status_condition_current_status_seconds", "How long a condition has been as it is.", func(condition metav1.Condition) float64 {
			return now.Sub(condition.LastTransitionTime.Time).Seconds()
		}),
		{
			Name: m.prefix + "termination_current_time_seconds", Help: "How long an object has been on its way out.",
			Labels: slices.Concat([]string{"namespace", "name"}, m.labels), Each: func(write func(float64, ...string)) {
				each(func(o client.Object, labels []string) {
					if at := o.GetDeletionTimestamp(); at != nil {
						write(now.Sub(at.Time).Seconds(), slices.Concat([]string{o.GetNamespace(), o.GetName()}, labels)...)
					}
				})
			},
		},
	}
}

// each calls do with the metrics of the kind, and the labels that all of them end with.
func (k *conditionKind) each(o client.Object, do func(m *conditionMetrics, labels []string)) {
	do(k.under, k.labelsOf(k.under, o))
	if k.old != nil {
		do(k.old, k.labelsOf(k.old, o))
	}
}

// labelsOf returns the values of the labels that all metrics of m end with.
func (k *conditionKind) labelsOf(m *conditionMetrics, o client.Object) []string {
	if m == k.old {
		return []string{k.group, k.name}
	}
	labels := make([]string, 0, len(k.labelKeys))
	for _, key := range k.labelKeys {
		labels = append(labels, o.GetLabels()[key])
	}
	return labels
}

// metrics returns those of all kinds, each once.
func (c *Conditions) metrics() []*conditionMetrics {
	all := []*conditionMetrics{c.kinds[0].old}
	for _, k := range c.kinds {
		all = append(all, k.under)
	}
	return all
}

func (c *Conditions) kindOf(o client.Object) *conditionKind {
	for _, k := range c.kinds {
		if reflect.TypeOf(k.object) == reflect.TypeOf(o) {
			return k
		}
	}
	return nil
}

// ours reports whether an object is of one of our provider's node classes, or a capacity buffer.
func (c *Conditions) ours(o client.Object) bool {
	switch o := o.(type) {
	case *karpenterv1.NodeClaim:
		return mirror.ManagesClaim(c.classes, o)
	case *karpenterv1.NodePool:
		ref := o.Spec.Template.Spec.NodeClassRef
		return ref != nil && slices.ContainsFunc(c.classes, func(k schema.GroupVersionKind) bool { return k.Group == ref.Group && k.Kind == ref.Kind })
	case *corev1.Node:
		return mirror.ManagesNode(c.classes, o)
	case *awsv1.EC2NodeClass, *kwokv1alpha1.KWOKNodeClass, *autoscalingv1beta1.CapacityBuffer:
		return true
	default:
		return false
	}
}

// conditionsOf returns the conditions of an object in one form.
func conditionsOf(o client.Object) []metav1.Condition {
	switch o := o.(type) {
	case *karpenterv1.NodeClaim:
		return o.Status.Conditions
	case *karpenterv1.NodePool:
		return o.Status.Conditions
	case *awsv1.EC2NodeClass:
		return o.Status.Conditions
	case *kwokv1alpha1.KWOKNodeClass:
		return o.Status.Conditions
	case *autoscalingv1beta1.CapacityBuffer:
		return o.Status.Conditions
	case *corev1.Node:
		conditions := make([]metav1.Condition, 0, len(o.Status.Conditions))
		for _, c := range o.Status.Conditions {
			conditions = append(conditions, metav1.Condition{
				Type: string(c.Type), Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, LastTransitionTime: c.LastTransitionTime,
			})
		}
		return conditions
	default:
		return nil
	}
}
