package cluster

import (
	"cmp"
	"maps"
	"math"
	"reflect"
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
type Scheduler struct {
	c       *Cluster
	pending map[Key]*attempt
	hosts   map[string]*host
	sorted  []*host // by name
	waking  bool
	// counted is what spreads found, by workload, until one of its pods or a Node changes it.
	counted map[Key]count
	// zones are where Nodes stand in what pods are spread over.
	zones map[zoning]*domains
}

// attempt is what is known of a pod that waits.
type attempt struct {
	pod   *corev1.Pod // as it is now
	need  demand
	pause time.Duration
	due   time.Time
}

// host is a Node, what is taken of it, and what it has.
type host struct {
	name       string
	node       *corev1.Node
	pods       []boundPod // the most important and oldest first
	taken, all demand
	// promised is what the pods that wait in this round and are nominated for it will take, by
	// their priority.
	promised []promise
}

// resident is a pod that is bound to a Node, and what it takes there.
type boundPod struct {
	pod  *corev1.Pod
	need demand
}

// demand is what a pod asks for, or several.
type demand struct{ cpu, memory, pods amount }

// amount is milli-cpus, bytes or pods.
type amount = int64

func (d demand) plus(o demand) demand {
	return demand{d.cpu + o.cpu, d.memory + o.memory, d.pods + o.pods}
}

func (d demand) minus(o demand) demand {
	return demand{d.cpu - o.cpu, d.memory - o.memory, d.pods - o.pods}
}

// within tells whether there is so much.
func (d demand) within(all demand) bool {
	return d.cpu <= all.cpu && d.memory <= all.memory && d.pods <= all.pods
}

func newScheduler(c *Cluster) *Scheduler {
	s := &Scheduler{c: c, pending: map[Key]*attempt{}, hosts: map[string]*host{}, counted: map[Key]count{}, zones: map[zoning]*domains{}}
	c.API.Shelf("Pod").Index(nodeIndex, func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} })
	c.API.Watch(s.observe)
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

// search returns where a host of that name is among the sorted, or would be.
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
		for _, pod := range s.c.API.PodsOn(name) {
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
		if h := s.hosts[is.Spec.NodeName]; h != nil && isActive(is) {
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

// workloadOf names the workload of a pod.
func workloadOf(pod *corev1.Pod) Key {
	return Key{Namespace: pod.Namespace, Name: pod.Labels[AppLabel]}
}

func isActive(pod *corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

func (h *host) take(pod *corev1.Pod) {
	r := boundPod{pod, asks(pod)}
	i, _ := h.search(pod)
	h.pods, h.taken = slices.Insert(h.pods, i, r), h.taken.plus(r.need)
}

func (h *host) release(pod *corev1.Pod) {
	if i, there := h.search(pod); there {
		h.taken = h.taken.minus(h.pods[i].need)
		h.pods = slices.Delete(h.pods, i, i+1)
	}
}

// search returns where a pod is among those of a host, or would be.
func (h *host) search(pod *corev1.Pod) (at int, there bool) {
	return slices.BinarySearchFunc(h.pods, pod, func(r boundPod, pod *corev1.Pod) int { return compareImportance(r.pod, pod) })
}

// compareTurns orders pods by whose turn is first: the most important and oldest.
func compareImportance(a, b *corev1.Pod) int {
	if p := cmp.Compare(priorityOf(b), priorityOf(a)); p != 0 {
		return p
	}
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c
	}
	return compareKeys(KeyOf(a), KeyOf(b))
}

func asks(pod *corev1.Pod) demand {
	sum := demand{pods: 1}
	for i := range pod.Spec.Containers {
		r := pod.Spec.Containers[i].Resources.Requests
		sum.cpu, sum.memory = sumOf(sum.cpu, r.Cpu().MilliValue()), sumOf(sum.memory, r.Memory().Value())
	}
	return sum
}

// sumOf adds what is asked for, up to more than there can be.
func sumOf(a, b amount) amount {
	const most = math.MaxInt64 / 4
	return min(min(a, most)+min(b, most), most)
}

// stir has a round begin soon.
func (s *Scheduler) wake() {
	if s.waking || len(s.pending) == 0 {
		return
	}
	s.waking = true
	s.c.soon(5*time.Millisecond, 50*time.Millisecond, func() {
		s.waking = false
		s.round()
	})
}

// round tries every pod that waits and whose pause is over, the most important and oldest first.
func (s *Scheduler) round() {
	for _, h := range s.sorted {
		h.promised = h.promised[:0]
	}
	var turns []*attempt
	var next time.Time
	for _, t := range s.pending {
		if node := t.pod.Status.NominatedNodeName; node != "" {
			s.hosts[node].promise(t, 1)
		}
		switch {
		case !t.due.After(s.c.now()):
			turns = append(turns, t)
		case next.IsZero() || t.due.Before(next):
			next = t.due
		}
	}
	slices.SortFunc(turns, func(a, b *attempt) int { return compareImportance(a.pod, b.pod) })
	for _, t := range turns {
		s.try(t)
	}
	if !next.IsZero() {
		s.c.after(next.Sub(s.c.now()), s.wake)
	}
}

// try binds a pod, or says why not and has it wait.
func (s *Scheduler) try(t *attempt) {
	pod, spreads := t.pod, s.spreads(t.pod)
	s.hosts[pod.Status.NominatedNodeName].promise(t, -1) // what is kept for it does not keep it out
	if h := s.choose(pod, t.need, spreads); h != nil {
		s.c.config.Hooks.Count("pods bound")
		s.c.Volumes.provide(pod, h.node)
		Edit(s.c.API, pod, func(pod *corev1.Pod) {
			pod.Spec.NodeName = h.node.Name
			setPodCondition(pod, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: WireTime(s.c.now())})
		})
		return
	}
	nominated := s.preempt(pod, t.need, spreads)
	s.hosts[nominated].promise(t, 1)
	t.pause = min(max(tryFirst, 2*t.pause), tryMost)
	t.due = s.c.now().Add(t.pause)
	s.c.after(t.pause, s.wake)
	if pod.Status.NominatedNodeName == nominated && isSaidToWait(pod) {
		return // a write that changes nothing
	}
	Edit(s.c.API, pod, func(pod *corev1.Pod) {
		pod.Status.NominatedNodeName = nominated
		setPodCondition(pod, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			Message: "no node fits", LastTransitionTime: WireTime(s.c.now()),
		})
	})
}

// isSaidToWait tells whether a pod's status says already that it fits nowhere.
func isSaidToWait(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
}

func setPodCondition(pod *corev1.Pod, c corev1.PodCondition) {
	i := slices.IndexFunc(pod.Status.Conditions, func(had corev1.PodCondition) bool { return had.Type == c.Type })
	if i < 0 {
		pod.Status.Conditions = append(slices.Clip(pod.Status.Conditions), c)
		return
	}
	if had := &pod.Status.Conditions[i]; had.Status != c.Status || had.Reason != c.Reason {
		pod.Status.Conditions = slices.Clone(pod.Status.Conditions)
		pod.Status.Conditions[i] = c
	}
}

// choose returns where a pod goes; nil: nowhere.
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

// spare scores a Node: the emptiest is best, one with a soft taint last.
func (h *host) score() float64 {
	score := 1 - float64(h.taken.cpu)/float64(max(1, h.all.cpu))
	for _, t := range h.node.Spec.Taints {
		if t.Effect == corev1.TaintEffectPreferNoSchedule {
			score -= 10
		}
	}
	return score
}

// promise is what pods of a priority that are nominated for a Node will take there.
type promise struct {
	priority int32
	sum      demand
}

// promise adds what a pod that is nominated for a host needs there so many times. Where there is
// no host nothing is kept.
func (h *host) promise(t *attempt, times amount) {
	if h == nil {
		return
	}
	priority := priorityOf(t.pod)
	i := slices.IndexFunc(h.promised, func(p promise) bool { return p.priority == priority })
	if i < 0 {
		i = len(h.promised)
		h.promised = append(h.promised, promise{priority: priority})
	}
	sum := &h.promised[i].sum
	*sum = sum.plus(demand{times * t.need.cpu, times * t.need.memory, times * t.need.pods})
}

// kept returns what a host keeps for waiting pods that are at least so important.
func (h *host) kept(priority int32) (sum demand) {
	for _, p := range h.promised {
		if p.priority >= priority {
			sum = sum.plus(p.sum)
		}
	}
	return sum
}

// fits tells whether a pod that needs so much can go to a host.
func (s *Scheduler) fits(pod *corev1.Pod, need demand, h *host, spreads []spread) bool {
	return h.taken.plus(h.kept(priorityOf(pod))).plus(need).within(h.all) && s.allows(pod, h, spreads) && isApart(pod, h.pods)
}

// lets tells whether a host lets a pod come, room and the pods that are there apart.
func (s *Scheduler) allows(pod *corev1.Pod, h *host, spreads []spread) bool {
	return suits(pod, h.node) && s.c.Volumes.reach(pod, h.node) && !slices.ContainsFunc(spreads, func(x spread) bool { return !x.allows(h.node) })
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

// isApart tells whether none of some pods on a Node and this one want to be apart.
func isApart(pod *corev1.Pod, pods []boundPod) bool {
	return pod.Spec.Affinity == nil || !slices.ContainsFunc(pods, func(r boundPod) bool { return workloadOf(r.pod) == workloadOf(pod) })
}

// spread is how many pods there are in each domain of a rule that a pod wants kept even.
type spread struct {
	key   string
	skew  int
	in    map[string]int
	least int
}

// count is what was found of a pod's rules.
type count struct {
	pod     *corev1.Pod
	spreads []spread
}

// spreads returns what a pod's rules are about.
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

// hasRulesOf tells whether the rules of two pods are about the same.
func hasRulesOf(a, b *corev1.Pod) bool {
	return maps.Equal(a.Spec.NodeSelector, b.Spec.NodeSelector) &&
		reflect.DeepEqual(a.Spec.TopologySpreadConstraints, b.Spec.TopologySpreadConstraints)
}

// spread counts what a rule is about; nil in: nothing satisfies the rule.
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
	for _, other := range s.c.API.PodsOf(pod.Labels[AppLabel]) { // all rules are about siblings
		if other.DeletionTimestamp != nil || other.Namespace != pod.Namespace || !isActive(other) || !selector.Matches(labels.Set(other.Labels)) {
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

// zoning is a rule's label and the workload whose pods have it.
type zoning struct {
	workload Key
	label    string
}

// domains are in which domain each Node counts for pods with a selector.
type domains struct {
	zoning
	selector map[string]string
	of       map[string]string // by the Node's name; those that are not here count in none
	nodes    map[string]int    // by domain
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

// rezone takes note of a Node that is new, has other labels, or is gone: nil.
func (s *Scheduler) rezone(name string, node *corev1.Node) {
	clear(s.counted)
	for _, z := range s.zones {
		z.put(name, node)
	}
}

func (z *domains) put(name string, node *corev1.Node) {
	if had := z.of[name]; had != "" {
		delete(z.of, name)
		if z.nodes[had]--; z.nodes[had] == 0 {
			delete(z.nodes, had)
		}
	}
	if node == nil || !isSubset(z.selector, node.Labels) {
		return
	}
	if domain := node.Labels[z.label]; domain != "" {
		z.of[name] = domain
		z.nodes[domain]++
	}
}

// allows tells whether one more pod on the Node keeps the domains as even as is asked.
func (x spread) allows(node *corev1.Node) bool {
	domain := node.Labels[x.key]
	return x.in != nil && domain != "" && x.in[domain]+1-max(0, x.least) <= x.skew
}

// fitsIn reports whether the volumes of a pod and the spread of its workload let it go to a zone.
func (s *Scheduler) FitsIn(pod *corev1.Pod, zone string) bool {
	there := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1.LabelTopologyZone: zone}}}
	return s.c.Volumes.reach(pod, there) && !slices.ContainsFunc(s.spreads(pod), func(x spread) bool { return !x.allows(there) })
}
