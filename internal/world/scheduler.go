package world

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nodeIndex finds pods by the node they are bound to.
const nodeIndex = "node"

// tryFirst and tryMost bound the pause before a pod is tried again that did not fit.
const (
	tryFirst = time.Second
	tryMost  = 10 * time.Second
)

// scheduler stands in for kube-scheduler: it filters Nodes by taints, selectors, resources,
// volumes, spread and anti-affinity, prefers the one that a pod is nominated for, then the emptiest.
// What fits nowhere drives out what is less important (preempt.go).
type scheduler struct {
	w       *World
	pending map[key]*attempt
	hosts   map[string]*host
	sorted  []*host // by name
	stirred bool
	// promised is what the pods that wait in this round are nominated for, and ranks their
	// priorities.
	promised map[place]promise
	ranks    []int32
}

// attempt is what is known of a pod that waits.
type attempt struct {
	uid   string
	pause time.Duration
	due   time.Time
}

// host is a Node, what is taken of it, and what it has.
type host struct {
	name        string
	node        *corev1.Node
	pods        map[key]*corev1.Pod
	cpu, memory amount

	cpuAll, memoryAll, podsAll amount
}

// demand is what a pod asks for.
type demand struct{ cpu, memory amount }

// amount is milli-cpus or bytes.
type amount = int64

func newScheduler(w *World) *scheduler {
	s := &scheduler{w: w, pending: map[key]*attempt{}, hosts: map[string]*host{}}
	w.api.shelf("Pod").indexes[nodeIndex] = byOne(func(o client.Object) string { return o.(*corev1.Pod).Spec.NodeName })
	w.api.watchers = append(w.api.watchers, s.hear)
	return s
}

func (s *scheduler) hear(kind string, was, is client.Object) {
	switch kind {
	case "Pod":
		before, _ := was.(*corev1.Pod)
		after, _ := is.(*corev1.Pod)
		s.hearPod(before, after)
	case "Node":
		s.hearNode(was, is)
	}
}

func (s *scheduler) hearNode(was, is client.Object) {
	if is == nil {
		name := was.GetName()
		if s.hosts[name] == nil {
			return
		}
		delete(s.hosts, name)
		if i, ok := s.search(name); ok {
			s.sorted = slices.Delete(s.sorted, i, i+1)
		}
		return
	}
	node := is.(*corev1.Node)
	h := s.host(node.Name)
	h.node = node
	can := node.Status.Allocatable
	h.cpuAll, h.memoryAll, h.podsAll = can.Cpu().MilliValue(), can.Memory().Value(), can.Pods().Value()
	s.stir()
}

// search returns where a host of that name is among the sorted, or would be.
func (s *scheduler) search(name string) (at int, there bool) {
	return slices.BinarySearchFunc(s.sorted, name, func(h *host, name string) int { return cmp.Compare(h.name, name) })
}

func (s *scheduler) host(name string) *host {
	h := s.hosts[name]
	if h == nil {
		h = &host{name: name, pods: map[key]*corev1.Pod{}}
		s.hosts[name] = h
		i, _ := s.search(name)
		s.sorted = slices.Insert(s.sorted, i, h)
		for _, pod := range s.w.api.podsOn(name) {
			h.take(pod)
		}
	}
	return h
}

func (s *scheduler) hearPod(was, is *corev1.Pod) {
	if was != nil && was.Spec.NodeName != "" {
		if h := s.hosts[was.Spec.NodeName]; h != nil {
			h.leave(keyOf(was))
			s.stir()
		}
	}
	if is == nil {
		delete(s.pending, keyOf(was))
		return
	}
	k := keyOf(is)
	switch {
	case is.Spec.NodeName != "":
		delete(s.pending, k)
		if h := s.hosts[is.Spec.NodeName]; h != nil && isActive(is) {
			h.take(is)
		}
	case is.DeletionTimestamp != nil:
		delete(s.pending, k)
	case s.pending[k] == nil || s.pending[k].uid != string(is.UID):
		s.pending[k] = &attempt{uid: string(is.UID)}
		s.stir()
	}
}

func isActive(pod *corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

func (h *host) take(pod *corev1.Pod) {
	cpu, memory := asks(pod)
	h.pods[keyOf(pod)] = pod
	h.cpu, h.memory = h.cpu+cpu, h.memory+memory
}

func (h *host) leave(k key) {
	if pod := h.pods[k]; pod != nil {
		cpu, memory := asks(pod)
		delete(h.pods, k)
		h.cpu, h.memory = h.cpu-cpu, h.memory-memory
	}
}

func asks(pod *corev1.Pod) (cpu, memory amount) {
	for i := range pod.Spec.Containers {
		r := pod.Spec.Containers[i].Resources.Requests
		cpu, memory = cpu+r.Cpu().MilliValue(), memory+r.Memory().Value()
	}
	return cpu, memory
}

// stir has a round begin soon.
func (s *scheduler) stir() {
	if s.stirred || len(s.pending) == 0 {
		return
	}
	s.stirred = true
	s.w.after(s.w.between(5*time.Millisecond, 50*time.Millisecond), func() {
		s.stirred = false
		s.round()
	})
}

// round tries every pod that waits and whose pause is over, the most important and oldest first.
func (s *scheduler) round() {
	var pods []*corev1.Pod
	var next time.Time
	for k, try := range s.pending {
		if try.due.After(s.w.at) {
			if next.IsZero() || try.due.Before(next) {
				next = try.due
			}
			continue
		}
		if pod, ok := find[*corev1.Pod](s.w.api, k.Namespace, k.Name); ok {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(priorityOf(b), priorityOf(a)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), compareKeys(keyOf(a), keyOf(b)))
	})
	s.promises()
	for _, pod := range pods {
		s.try(pod)
	}
	if !next.IsZero() {
		s.w.after(next.Sub(s.w.at), s.stir)
	}
}

// try binds a pod, or says why not and has it wait.
func (s *scheduler) try(pod *corev1.Pod) {
	need, spreads := demand{}, s.spreads(pod)
	need.cpu, need.memory = asks(pod)
	s.promise(pod.Status.NominatedNodeName, pod, -1) // what is kept for it does not keep it out
	if h := s.choose(pod, need, spreads); h != nil {
		s.w.count("pods bound")
		s.w.volumes.provide(pod, h.node)
		edit(s.w.api, pod, func(pod *corev1.Pod) {
			pod.Spec.NodeName = h.node.Name
			setPodCondition(pod, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: second(s.w.at)})
		})
		return
	}
	nominated := s.preempt(pod, need, spreads)
	s.promise(nominated, pod, 1)
	t := s.pending[keyOf(pod)]
	t.pause = min(max(tryFirst, 2*t.pause), tryMost)
	t.due = s.w.at.Add(t.pause)
	s.w.after(t.pause, s.stir)
	edit(s.w.api, pod, func(pod *corev1.Pod) {
		pod.Status.NominatedNodeName = nominated
		setPodCondition(pod, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			Message: "no node fits", LastTransitionTime: second(s.w.at),
		})
	})
}

func setPodCondition(pod *corev1.Pod, c corev1.PodCondition) {
	for i := range pod.Status.Conditions {
		if had := &pod.Status.Conditions[i]; had.Type == c.Type {
			if had.Status != c.Status || had.Reason != c.Reason {
				*had = c
			}
			return
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, c)
}

// choose returns where a pod goes; nil: nowhere.
func (s *scheduler) choose(pod *corev1.Pod, need demand, spreads []spread) *host {
	if h := s.hosts[pod.Status.NominatedNodeName]; h != nil && s.fits(pod, need, h, spreads) {
		return h
	}
	var best *host
	var most float64
	for _, h := range s.sorted {
		if !s.fits(pod, need, h, spreads) {
			continue
		}
		if score := h.spare(); best == nil || score > most {
			best, most = h, score
		}
	}
	return best
}

// spare scores a Node: the emptiest is best, one with a soft taint last.
func (h *host) spare() float64 {
	score := 1 - float64(h.cpu)/float64(max(1, h.cpuAll))
	for _, t := range h.node.Spec.Taints {
		if t.Effect == corev1.TaintEffectPreferNoSchedule {
			score -= 10
		}
	}
	return score
}

// place is a Node, to pods of a priority.
type place struct {
	node     string
	priority int32
}

// promise is what pods that are nominated for a Node will take there.
type promise struct {
	cpu, memory amount
	pods        int
}

// promises sums up what the pods that wait are nominated for.
func (s *scheduler) promises() {
	s.promised, s.ranks = map[place]promise{}, nil
	for k := range s.pending {
		if pod, ok := find[*corev1.Pod](s.w.api, k.Namespace, k.Name); ok {
			s.promise(pod.Status.NominatedNodeName, pod, 1)
		}
	}
}

// promise adds what a pod that is nominated for a Node needs there so many times.
func (s *scheduler) promise(node string, pod *corev1.Pod, times int64) {
	if node == "" {
		return
	}
	cpu, memory := asks(pod)
	at := place{node, priorityOf(pod)}
	if !slices.Contains(s.ranks, at.priority) {
		s.ranks = append(s.ranks, at.priority)
	}
	p := s.promised[at]
	s.promised[at] = promise{p.cpu + times*cpu, p.memory + times*memory, p.pods + int(times)}
}

// kept returns what a Node keeps for waiting pods that are as important as this one.
func (s *scheduler) kept(node string, priority int32) (sum promise) {
	for _, rank := range s.ranks {
		if rank >= priority {
			p := s.promised[place{node, rank}]
			sum = promise{sum.cpu + p.cpu, sum.memory + p.memory, sum.pods + p.pods}
		}
	}
	return sum
}

// fits tells whether a pod that needs so much can go to a host.
func (s *scheduler) fits(pod *corev1.Pod, need demand, h *host, spreads []spread) bool {
	p := s.kept(h.name, priorityOf(pod))
	if h.cpu+p.cpu+need.cpu > h.cpuAll || h.memory+p.memory+need.memory > h.memoryAll || int64(len(h.pods)+p.pods+1) > h.podsAll {
		return false
	}
	return suits(pod, h.node) && s.w.volumes.reach(pod, h.node) && s.isApart(pod, h) && !slices.ContainsFunc(spreads, func(x spread) bool { return !x.allows(h.node) })
}

// suits tells whether a Node lets a pod come, room apart.
func suits(pod *corev1.Pod, node *corev1.Node) bool {
	if node.Spec.Unschedulable || !isSubset(pod.Spec.NodeSelector, node.Labels) {
		return false
	}
	for i := range node.Spec.Taints {
		t := &node.Spec.Taints[i]
		hard := t.Effect != corev1.TaintEffectPreferNoSchedule
		if hard && !slices.ContainsFunc(pod.Spec.Tolerations, func(x corev1.Toleration) bool { return tolerates(x, t) }) {
			return false
		}
	}
	return true
}

func tolerates(x corev1.Toleration, t *corev1.Taint) bool {
	return (x.Key == "" || x.Key == t.Key) && (x.Effect == "" || x.Effect == t.Effect) &&
		(x.Operator == corev1.TolerationOpExists || x.Value == t.Value)
}

// isApart tells whether no pod on the Node and this one want to be apart.
func (s *scheduler) isApart(pod *corev1.Pod, h *host) bool {
	if pod.Spec.Affinity == nil {
		return true
	}
	for _, other := range h.pods {
		if other.Labels[appLabel] == pod.Labels[appLabel] && other.Namespace == pod.Namespace {
			return false
		}
	}
	return true
}

// spread is how many pods there are in each domain of a rule that a pod wants kept even.
type spread struct {
	key   string
	skew  int
	in    map[string]int
	least int
}

// spreads counts what a pod's rules are about; nil in: nothing satisfies the rule.
func (s *scheduler) spreads(pod *corev1.Pod) []spread {
	spreads := make([]spread, len(pod.Spec.TopologySpreadConstraints))
	for i := range spreads {
		c := &pod.Spec.TopologySpreadConstraints[i]
		selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if err != nil {
			continue
		}
		x := spread{key: c.TopologyKey, skew: int(c.MaxSkew), in: map[string]int{}, least: -1}
		for _, h := range s.hosts {
			if domain := x.domainOf(pod, h); domain != "" {
				x.in[domain] += 0
			}
		}
		for _, other := range s.w.api.podsOf(pod.Labels[appLabel]) { // all rules are about siblings
			if other.DeletionTimestamp != nil || other.Namespace != pod.Namespace || !isActive(other) || !selector.Matches(labels.Set(other.Labels)) {
				continue
			}
			if domain := x.domainOf(pod, s.hosts[other.Spec.NodeName]); domain != "" {
				x.in[domain]++
			}
		}
		for _, n := range x.in {
			if x.least < 0 || n < x.least {
				x.least = n
			}
		}
		spreads[i] = x
	}
	return spreads
}

// domainOf returns the domain that a host counts in for a pod; empty: in none.
func (x spread) domainOf(pod *corev1.Pod, h *host) string {
	if h == nil || h.node == nil || !isSubset(pod.Spec.NodeSelector, h.node.Labels) {
		return ""
	}
	return h.node.Labels[x.key]
}

// allows tells whether one more pod on the Node keeps the domains as even as is asked.
func (x spread) allows(node *corev1.Node) bool {
	domain := node.Labels[x.key]
	return x.in != nil && domain != "" && x.in[domain]+1-max(0, x.least) <= x.skew
}
