package cluster

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tryFirst and tryMost bound the pause before a pod is tried again that did not fit.
const (
	tryFirst = time.Second
	tryMost  = 10 * time.Second
)

// Scheduler stands in for kube-scheduler: it filters Nodes by taints, selectors, resources,
// volumes, spread and anti-affinity, prefers the one that a pod is nominated for, then the emptiest.
// A pod that fits on no Node preempts pods of lower priority (preempt.go).
type Scheduler struct {
	config  *Config
	api     *API
	volumes *Volumes
	pending map[Key]*attempt
	hosts   map[string]*host
	sorted  []*host // by name
	waking  bool
	// counted caches the topology counts of each workload until one of its pods or a Node changes.
	counted map[Key]count
	// zones caches which topology domain each Node is in.
	zones map[zoning]*domains
}

// attempt is a pending pod, and when it is tried next.
type attempt struct {
	pod   *corev1.Pod // as it is now
	need  demand
	pause time.Duration
	due   time.Time
}

func newScheduler(config *Config, api *API, volumes *Volumes) *Scheduler {
	s := &Scheduler{config: config, api: api, volumes: volumes, pending: map[Key]*attempt{}, hosts: map[string]*host{}, counted: map[Key]count{}, zones: map[zoning]*domains{}}
	api.Shelf("Pod").Index(nodeIndex, func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} })
	return s
}

func (s *Scheduler) observe(kind string, was, is client.Object) {
	switch kind {
	case "Pod":
		before, _ := was.(*corev1.Pod)
		after, _ := is.(*corev1.Pod)
		s.observePod(before, after)
	case "Node":
		s.observeNode(was, is)
	}
}

func (s *Scheduler) observeNode(was, is client.Object) {
	if is == nil {
		name := was.GetName()
		if s.hosts[name] == nil {
			return
		}
		s.rezone(name, nil)
		delete(s.hosts, name)
		if i, ok := s.search(name); ok {
			s.sorted = slices.Delete(s.sorted, i, i+1)
		}
		return
	}
	node := is.(*corev1.Node)
	h := s.host(node.Name)
	if h.node == nil || !maps.Equal(h.node.Labels, node.Labels) {
		s.rezone(node.Name, node)
	}
	h.node = node
	can := node.Status.Allocatable
	h.all = demand{can.Cpu().MilliValue(), can.Memory().Value(), can.Pods().Value()}
	s.wake()
}

// search returns the index of a host in sorted, or the index at which to insert it.
func (s *Scheduler) search(name string) (at int, there bool) {
	return slices.BinarySearchFunc(s.sorted, name, func(h *host, name string) int { return cmp.Compare(h.name, name) })
}

func (s *Scheduler) host(name string) *host {
	h := s.hosts[name]
	if h == nil {
		h = &host{name: name}
		s.hosts[name] = h
		i, _ := s.search(name)
		s.sorted = slices.Insert(s.sorted, i, h)
		for _, pod := range s.api.PodsOn(name) {
			h.take(pod)
		}
	}
	return h
}

func (s *Scheduler) observePod(was, is *corev1.Pod) {
	if was != nil && was.Spec.NodeName != "" {
		delete(s.counted, workloadOf(was))
		if h := s.hosts[was.Spec.NodeName]; h != nil {
			h.release(was)
			s.wake()
		}
	}
	if is == nil {
		delete(s.pending, KeyOf(was))
		return
	}
	k := KeyOf(is)
	t := s.pending[k]
	switch {
	case is.Spec.NodeName != "":
		delete(s.counted, workloadOf(is))
		delete(s.pending, k)
		if h := s.hosts[is.Spec.NodeName]; h != nil && IsActive(is) {
			h.take(is)
		}
	case is.DeletionTimestamp != nil:
		delete(s.pending, k)
	case t == nil || t.pod.UID != is.UID:
		s.pending[k] = &attempt{pod: is, need: asks(is)}
		s.wake()
	default:
		t.pod = is
	}
}

// wake has a round begin soon.
func (s *Scheduler) wake() {
	if s.waking || len(s.pending) == 0 {
		return
	}
	s.waking = true
	s.config.soon(5*time.Millisecond, 50*time.Millisecond, func() {
		s.waking = false
		s.round()
	})
}

// round tries every pod that waits and whose pause is over, the most important and oldest first.
func (s *Scheduler) round() {
	for _, h := range s.sorted {
		h.promised = h.promised[:0]
	}
	var ready []*attempt
	var next time.Time
	for _, t := range s.pending {
		if node := t.pod.Status.NominatedNodeName; node != "" {
			s.hosts[node].promise(t, 1)
		}
		switch {
		case !t.due.After(s.config.now()):
			ready = append(ready, t)
		case next.IsZero() || t.due.Before(next):
			next = t.due
		}
	}
	slices.SortFunc(ready, func(a, b *attempt) int { return compareImportance(a.pod, b.pod) })
	var gangs []Key
	for _, t := range ready {
		group, is := groupOf(t.pod)
		switch {
		case !is:
			s.try(t)
		case !slices.Contains(gangs, group):
			gangs = append(gangs, group)
			s.tryGang(group)
		}
	}
	if !next.IsZero() {
		s.config.after(next.Sub(s.config.now()), s.wake)
	}
}

// try binds a pod, or says why not and has it wait.
func (s *Scheduler) try(t *attempt) {
	pod, spreads := t.pod, s.spreads(t.pod)
	s.hosts[pod.Status.NominatedNodeName].promise(t, -1) // what is kept for it does not keep it out
	if h := s.choose(pod, t.need, spreads); h != nil {
		s.bind(pod, h)
		return
	}
	nominated := s.preempt(pod, t.need, spreads)
	s.hosts[nominated].promise(t, 1)
	s.wait(t, nominated, corev1.PodReasonUnschedulable)
}

// bind binds a pod to a host.
func (s *Scheduler) bind(pod *corev1.Pod, h *host) {
	s.config.Hooks.Count("pods bound")
	s.volumes.provide(pod, h.node)
	Edit(s.api, pod, func(pod *corev1.Pod) {
		pod.Spec.NodeName = h.node.Name
		setPodCondition(pod, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: WireTime(s.config.now())})
	})
}

// wait has a pod wait that fits on no Node, and says so.
func (s *Scheduler) wait(t *attempt, nominated, reason string) {
	pod := t.pod
	t.pause = min(max(tryFirst, 2*t.pause), tryMost)
	t.due = s.config.now().Add(t.pause)
	s.config.after(t.pause, s.wake)
	if pod.Status.NominatedNodeName == nominated && isSaidToWait(pod, reason) {
		return // a write that changes nothing
	}
	Edit(s.api, pod, func(pod *corev1.Pod) {
		pod.Status.NominatedNodeName = nominated
		setPodCondition(pod, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason,
			Message: "no node fits", LastTransitionTime: WireTime(s.config.now()),
		})
	})
}

// isSaidToWait reports whether a pod's status already says that it waits, for that reason.
func isSaidToWait(pod *corev1.Pod, reason string) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == reason
	})
}

// choose returns the host that a pod is bound to; nil: it fits on none.
func (s *Scheduler) choose(pod *corev1.Pod, need demand, spreads []spread) *host {
	if h := s.hosts[pod.Status.NominatedNodeName]; h != nil && s.fits(pod, need, h, spreads) {
		return h
	}
	var best *host
	var most float64
	for _, h := range s.sorted {
		if !s.fits(pod, need, h, spreads) {
			continue
		}
		if score := h.score(); best == nil || score > most {
			best, most = h, score
		}
	}
	return best
}

// fits reports whether a host has room for a pod and takes it.
func (s *Scheduler) fits(pod *corev1.Pod, need demand, h *host, spreads []spread) bool {
	return h.taken.plus(h.kept(priorityOf(pod))).plus(need).within(h.all) && s.allows(pod, h, spreads) && isApart(pod, h.pods)
}

// allows reports whether a host takes a pod, not counting room and the pods that are there.
func (s *Scheduler) allows(pod *corev1.Pod, h *host, spreads []spread) bool {
	return suits(pod, h.node) && s.volumes.reach(pod, h.node) && !slices.ContainsFunc(spreads, func(x spread) bool { return !x.allows(h.node) })
}

// count is the topology counts of a pod's spread constraints.
type count struct {
	pod     *corev1.Pod
	spreads []spread
}

// spreads returns the topology counts of a pod's spread constraints.
func (s *Scheduler) spreads(pod *corev1.Pod) []spread {
	if len(pod.Spec.TopologySpreadConstraints) == 0 {
		return nil
	}
	had, ok := s.counted[workloadOf(pod)]
	if !ok || !hasRulesOf(pod, had.pod) {
		had = count{pod, make([]spread, len(pod.Spec.TopologySpreadConstraints))}
		for i := range had.spreads {
			had.spreads[i] = s.spread(pod, &pod.Spec.TopologySpreadConstraints[i])
		}
		s.counted[workloadOf(pod)] = had
	}
	return had.spreads
}

// hasRulesOf reports whether two pods have the same spread constraints and node selector.
func hasRulesOf(a, b *corev1.Pod) bool {
	return maps.Equal(a.Spec.NodeSelector, b.Spec.NodeSelector) &&
		reflect.DeepEqual(a.Spec.TopologySpreadConstraints, b.Spec.TopologySpreadConstraints)
}

// spread counts the pods of one constraint; nil in: nothing satisfies the constraint.
func (s *Scheduler) spread(pod *corev1.Pod, c *corev1.TopologySpreadConstraint) spread {
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil {
		return spread{}
	}
	x := spread{key: c.TopologyKey, skew: int(c.MaxSkew), in: map[string]int{}, least: -1}
	zones := s.zonesOf(pod, c.TopologyKey)
	for domain := range zones.nodes {
		x.in[domain] = 0
	}
	for _, other := range s.api.PodsOf(pod.Labels[AppLabel]) { // all rules are about siblings
		if other.DeletionTimestamp != nil || other.Namespace != pod.Namespace || !IsActive(other) || !selector.Matches(labels.Set(other.Labels)) {
			continue
		}
		if domain := zones.of[other.Spec.NodeName]; domain != "" {
			x.in[domain]++
		}
	}
	for _, n := range x.in {
		if x.least < 0 || n < x.least {
			x.least = n
		}
	}
	return x
}

// zonesOf returns in which domains of a label Nodes count for a pod.
func (s *Scheduler) zonesOf(pod *corev1.Pod, label string) *domains {
	k := zoning{workloadOf(pod), label}
	z := s.zones[k]
	if z == nil || !maps.Equal(z.selector, pod.Spec.NodeSelector) {
		z = &domains{zoning: k, selector: pod.Spec.NodeSelector, of: map[string]string{}, nodes: map[string]int{}}
		for _, h := range s.sorted {
			z.put(h.name, h.node)
		}
		s.zones[k] = z
	}
	return z
}

// rezone updates the domains for a Node that is new or has other labels, or is gone (nil).
func (s *Scheduler) rezone(name string, node *corev1.Node) {
	clear(s.counted)
	for _, z := range s.zones {
		z.put(name, node)
	}
}

// FitsIn reports whether the volumes of a pod and the spread of its workload let it go to a zone.
func (s *Scheduler) FitsIn(pod *corev1.Pod, zone string) bool {
	there := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1.LabelTopologyZone: zone}}}
	return s.volumes.reach(pod, there) && !slices.ContainsFunc(s.spreads(pod), func(x spread) bool { return !x.allows(there) })
}
