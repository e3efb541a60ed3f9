package disaster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	namespace = "default"
	appLabel  = "app"

	// round is how often kube-scheduler and the workload controllers look; each acts on
	// what it finds at once.
	round = 100 * time.Millisecond
	// podStarts and podEnds are how long a pod takes to run once it is bound, and to go
	// once it is told to.
	podStarts, podEnds = 2 * time.Second, 2 * time.Second
)

// app is a workload: so many pods of one kind.
type app struct {
	name                string
	replicas            int
	cpuMilli, memoryMiB int64
	grace               int64
	zone                string // that its pods ask for; empty: none
	owner               *appsv1.ReplicaSet
}

// cluster is what is besides the product: kube-scheduler, kubelets, controllers. It is
// changed under the server's lock.
type cluster struct {
	s    *server
	apps map[string]*app
	pods map[string]map[key]bool // by app
	// late are the apps that may have too few pods, or too many.
	late  map[string]bool
	hosts map[string]*host
	// homeless are the pods that have no node.
	homeless map[key]bool
	due      []task
	made     int
	// bound is when each pod was.
	bound map[key]time.Time
}

// task is something that a kubelet does at a time.
type task struct {
	at time.Time
	do func()
}

// host is a Node with what is free on it.
type host struct {
	node        *corev1.Node
	up          bool // its kubelet is there
	cpu, memory int64
	slots       int64
	pods        map[key]*corev1.Pod
	promised    map[key]*corev1.Pod // pods that were nominated for it
}

func newCluster(s *server) *cluster {
	c := &cluster{
		s: s, apps: map[string]*app{}, pods: map[string]map[key]bool{}, late: map[string]bool{}, hosts: map[string]*host{},
		homeless: map[key]bool{}, bound: map[key]time.Time{},
	}
	s.hearers = append(s.hearers, c.hear)
	return c
}

// run looks again and again until the context ends.
func (c *cluster) run(ctx context.Context) {
	for ctx.Err() == nil {
		c.s.locked(c.look)
		time.Sleep(round)
	}
}

func (c *cluster) look() {
	now := time.Now()
	due := c.due
	c.due = nil
	for _, t := range due {
		if t.at.After(now) {
			c.due = append(c.due, t)
			continue
		}
		t.do()
	}
	for _, name := range slices.Sorted(maps.Keys(c.late)) {
		c.keep(c.apps[name])
	}
	clear(c.late)
	c.schedule()
	c.collect()
}

func (c *cluster) later(pause time.Duration, do func()) {
	c.due = append(c.due, task{time.Now().Add(pause), do})
}

// scale sets how many pods an app has, which is begun if it is new.
func (c *cluster) scale(a *app, replicas int) {
	c.s.locked(func() {
		if c.apps[a.name] == nil {
			a.owner = &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: a.name}}
			must(c.s.create(a.owner))
			must(c.s.create(&policyv1.PodDisruptionBudget{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: a.name},
				Spec: policyv1.PodDisruptionBudgetSpec{
					MaxUnavailable: &intstr.IntOrString{Type: intstr.String, StrVal: "25%"},
					Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: a.name}},
				},
			}))
			c.apps[a.name] = a
		}
		c.apps[a.name].replicas = replicas
		c.late[a.name] = true
	})
}

func must(err error) {
	if err != nil {
		panic(err) // of what the test itself makes, and names are unique
	}
}

// keep makes and removes pods until there are as many as there should be, and counts what
// the app's budget allows.
func (c *cluster) keep(a *app) {
	var active []*corev1.Pod
	healthy := 0
	for k := range c.pods[a.name] {
		pod, ok := find[*corev1.Pod](c.s, k.Namespace, k.Name)
		if !ok || pod.DeletionTimestamp != nil {
			continue
		}
		active = append(active, pod)
		if pod.Status.Phase == corev1.PodRunning && isReady(pod) {
			healthy++
		}
	}
	for range a.replicas - len(active) {
		c.made++
		must(c.s.create(a.pod(c.made)))
	}
	slices.SortFunc(active, func(a, b *corev1.Pod) int { return compare(keyOf(b), keyOf(a)) })
	for i := range len(active) - a.replicas {
		c.s.remove(active[i], a.grace)
	}
	if b, ok := find[*policyv1.PodDisruptionBudget](c.s, namespace, a.name); ok {
		most, _ := intstr.GetScaledValueFromIntOrPercent(b.Spec.MaxUnavailable, a.replicas, true)
		edit(c.s, b, func(b *policyv1.PodDisruptionBudget) {
			b.Status.ObservedGeneration = b.Generation
			b.Status.CurrentHealthy, b.Status.DesiredHealthy = int32(healthy), int32(max(0, a.replicas-most))
			b.Status.ExpectedPods = int32(a.replicas)
			b.Status.DisruptionsAllowed = max(0, b.Status.CurrentHealthy-b.Status.DesiredHealthy)
		})
	}
}

func (a *app) pod(n int) *corev1.Pod {
	yes := true
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("%s-%06d", a.name, n), Labels: map[string]string{appLabel: a.name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: a.name, UID: a.owner.UID, Controller: &yes}},
		},
		Spec: corev1.PodSpec{
			SchedulerName: corev1.DefaultSchedulerName, TerminationGracePeriodSeconds: &a.grace,
			Containers: []corev1.Container{{Name: "main", Image: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU:    *resource.NewMilliQuantity(a.cpuMilli, resource.DecimalSI),
				corev1.ResourceMemory: *resource.NewQuantity(a.memoryMiB<<20, resource.BinarySI),
			}}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if a.zone != "" {
		p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: a.zone}
	}
	return p
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func setCondition(pod *corev1.Pod, kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) {
	pod.Status.Conditions = slices.DeleteFunc(slices.Clone(pod.Status.Conditions), func(c corev1.PodCondition) bool { return c.Type == kind })
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: status, Reason: reason, LastTransitionTime: second(time.Now())})
}

// hear keeps account of pods and Nodes.
func (c *cluster) hear(kind string, was, is client.Object) {
	switch kind {
	case "Pod":
		before, _ := was.(*corev1.Pod)
		pod, _ := is.(*corev1.Pod)
		c.hearPod(before, pod)
	case "Node":
		if is == nil {
			if h := c.hosts[was.GetName()]; h != nil {
				h.up, h.node = false, nil
			}
			return
		}
		c.hearNode(is.(*corev1.Node))
	}
}

func (c *cluster) hearNode(node *corev1.Node) {
	h := c.hosts[node.Name]
	if h == nil || h.node == nil || h.node.UID != node.UID {
		h = &host{
			up: true, cpu: node.Status.Allocatable.Cpu().MilliValue(), memory: node.Status.Allocatable.Memory().Value(), slots: node.Status.Allocatable.Pods().Value(),
			pods: map[key]*corev1.Pod{}, promised: map[key]*corev1.Pod{},
		}
		c.hosts[node.Name] = h
	}
	h.node = node
}

func (c *cluster) hearPod(was, is *corev1.Pod) {
	pod := is
	if pod == nil {
		pod = was
	}
	k := keyOf(pod)
	name := pod.Labels[appLabel]
	if c.pods[name] == nil {
		c.pods[name] = map[key]bool{}
	}
	if c.apps[name] != nil {
		c.late[name] = true
	}
	if was != nil && was.Spec.NodeName == "" {
		if h := c.hosts[was.Status.NominatedNodeName]; h != nil {
			delete(h.promised, k)
		}
	}
	if is == nil {
		delete(c.pods[name], k)
		delete(c.homeless, k)
		if h := c.hosts[was.Spec.NodeName]; h != nil {
			h.give(was, -1)
		}
		return
	}
	c.pods[name][k] = true
	if is.Spec.NodeName == "" {
		c.homeless[k] = true
		if h := c.hosts[is.Status.NominatedNodeName]; h != nil {
			h.promised[k] = is
		}
	} else if was == nil || was.Spec.NodeName == "" {
		delete(c.homeless, k)
		c.bound[k] = time.Now()
		c.hosts[is.Spec.NodeName].give(is, 1)
		c.later(podStarts, func() { c.start(is) })
	}
	if is.DeletionTimestamp != nil && (was == nil || was.DeletionTimestamp == nil) {
		c.later(min(podEnds, time.Duration(graceLeft(is))*time.Second), func() { c.end(is) })
	}
}

func needs(pod *corev1.Pod) (cpu, memory int64) {
	r := pod.Spec.Containers[0].Resources.Requests
	return r.Cpu().MilliValue(), r.Memory().Value()
}

// give counts a pod on a host, or no more.
func (h *host) give(pod *corev1.Pod, times int64) {
	_, had := h.pods[keyOf(pod)]
	if had == (times > 0) {
		return
	}
	cpu, memory := needs(pod)
	h.cpu, h.memory, h.slots = h.cpu-times*cpu, h.memory-times*memory, h.slots-times
	if h.pods[keyOf(pod)] = pod; times < 0 {
		delete(h.pods, keyOf(pod))
	}
}

// start and end are what kubelets do with pods, if they are there.
func (c *cluster) start(pod *corev1.Pod) {
	now, ok := find[*corev1.Pod](c.s, pod.Namespace, pod.Name)
	if h := c.hosts[pod.Spec.NodeName]; ok && now.DeletionTimestamp == nil && h != nil && h.up {
		edit(c.s, now, func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodRunning
			setCondition(p, corev1.PodReady, corev1.ConditionTrue, "")
		})
	}
}

func (c *cluster) end(pod *corev1.Pod) {
	now, ok := find[*corev1.Pod](c.s, pod.Namespace, pod.Name)
	if h := c.hosts[pod.Spec.NodeName]; ok && (h == nil || h.up) {
		c.s.drop("Pod", now)
	}
}

// schedule binds what fits, as kube-scheduler would, and says of the rest that it does not.
func (c *cluster) schedule() {
	type shape struct {
		cpu, memory int64
		zone        string
	}
	hopeless := map[shape]bool{}
	for _, k := range slices.SortedFunc(maps.Keys(c.homeless), compare) {
		pod, _ := find[*corev1.Pod](c.s, k.Namespace, k.Name)
		cpu, memory := needs(pod)
		kind := shape{cpu, memory, pod.Spec.NodeSelector[corev1.LabelTopologyZone]}
		var best *host
		if h := c.hosts[pod.Status.NominatedNodeName]; h != nil && h.takes(pod) {
			best = h
		}
		if best == nil && !hopeless[kind] {
			best = c.choose(pod)
			hopeless[kind] = best == nil
		}
		switch {
		case best != nil:
			edit(c.s, pod, func(p *corev1.Pod) {
				p.Spec.NodeName = best.node.Name
				setCondition(p, corev1.PodScheduled, corev1.ConditionTrue, "")
			})
		case !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled }):
			edit(c.s, pod, func(p *corev1.Pod) {
				setCondition(p, corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable)
			})
		}
	}
}

// choose returns the host that takes a pod and has most cpu left; nil: none does.
func (c *cluster) choose(pod *corev1.Pod) (best *host) {
	for _, name := range slices.Sorted(maps.Keys(c.hosts)) {
		if h := c.hosts[name]; h.takes(pod) && (best == nil || h.cpu > best.cpu) {
			best = h
		}
	}
	return best
}

// takes tells whether a pod may go to a host; those that were nominated for it come first.
func (h *host) takes(pod *corev1.Pod) bool {
	if h.node == nil || h.node.Spec.Unschedulable || h.node.DeletionTimestamp != nil {
		return false
	}
	if zone := pod.Spec.NodeSelector[corev1.LabelTopologyZone]; zone != "" && zone != h.node.Labels[corev1.LabelTopologyZone] {
		return false
	}
	if slices.ContainsFunc(h.node.Spec.Taints, func(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }) {
		return false
	}
	cpu, memory := needs(pod)
	slots := h.slots
	for k, other := range h.promised {
		if k != keyOf(pod) {
			c, m := needs(other)
			cpu, memory, slots = cpu+c, memory+m, slots-1
		}
	}
	return h.cpu >= cpu && h.memory >= memory && slots > 0
}

// collect drops the pods of Nodes that are gone.
func (c *cluster) collect() {
	for name, h := range c.hosts {
		if h.node != nil {
			continue
		}
		for k := range h.pods {
			if pod, ok := find[*corev1.Pod](c.s, k.Namespace, k.Name); ok {
				c.s.drop("Pod", pod)
			}
		}
		delete(c.hosts, name)
	}
}

// Join and Leave are what the account's instances do.
func (c *cluster) Join(node *corev1.Node) {
	c.s.locked(func() {
		if old, ok := find[*corev1.Node](c.s, "", node.Name); ok { // of an instance that had the address before
			c.s.drop("Node", old)
			c.collect()
		}
		must(c.s.create(node.DeepCopy()))
	})
}

func (c *cluster) Leave(name string) {
	c.s.locked(func() {
		node, ok := find[*corev1.Node](c.s, "", name)
		if !ok {
			return
		}
		c.hosts[name].up = false
		c.s.remove(node, 0)
	})
}

// evict is the eviction subresource.
func (s *server) evict(asked *corev1.Pod) error {
	pod, ok := find[*corev1.Pod](s, asked.Namespace, asked.Name)
	if !ok {
		return apierrors.NewNotFound(resourceOf("Pod"), asked.Name)
	}
	if b, ok := find[*policyv1.PodDisruptionBudget](s, pod.Namespace, pod.Labels[appLabel]); ok && isReady(pod) && pod.DeletionTimestamp == nil {
		if b.Status.DisruptionsAllowed <= 0 {
			return apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10)
		}
		edit(s, b, func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed-- })
	}
	s.remove(pod, graceOf(pod))
	return nil
}
