package mirror

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/nominate"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// hintShown is how long a hint that we gave counts before the watch has shown it.
const hintShown = 5 * time.Second

// hint is what we remember of a nomination that we wrote.
type hint struct {
	node  string
	given int
	at    time.Time
	// shown: the watch has shown it since it was given last.
	shown bool
}

// hints is what the mirror knows of nominations that are ours. The zero value is ready.
type hints struct {
	given map[types.UID]hint
	// heard is when one of the pods was heard of last.
	heard  time.Time
	stir   func()
	landed func(Landing)
}

// Landing says what became of a pod that was meant for a machine.
type Landing string

// What becomes of pods: bound to that machine, bound to another, and not expected there
// any more because kube-scheduler has refused to.
const (
	AsPlanned Landing = "planned"
	Astray    Landing = "elsewhere"
	Refused   Landing = "refused"
)

func (h *hints) tell(l Landing) {
	if h.landed != nil {
		h.landed(l)
	}
}

// OnHint sets who is told when something happened that a hint may depend on. It must not
// call back.
func (s *Store) OnHint(stir func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hints.stir = stir
}

// OnLanded sets who is told what became of pods that were meant for a machine. It must not
// call back.
func (s *Store) OnLanded(landed func(Landing)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hints.landed = landed
}

// AssumeHint counts a hint that is about to be written before the watch shows it.
func (s *Store) AssumeHint(ref cluster.PodRef, node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	uid := types.UID(ref.UID)
	if s.pods[uid] == nil {
		return
	}
	if s.hints.given == nil {
		s.hints.given = map[types.UID]hint{}
	}
	h := s.hints.given[uid]
	if h.node != node {
		h = hint{node: node}
	}
	h.given, h.at, h.shown = h.given+1, s.opts.Now(), false
	s.hints.given[uid] = h
}

// DropHint takes back what AssumeHint said: the write failed.
func (s *Store) DropHint(ref cluster.PodRef) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h, ok := s.hints.given[types.UID(ref.UID)]; ok {
		h.shown = true
		s.hints.given[types.UID(ref.UID)] = h
	}
}

// Hints returns the pods that are meant for a machine or carry a hint of ours, and the
// Nodes that they are meant for, as Open ones.
func (s *Store) Hints() nominate.View {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	v := nominate.View{At: now, Heard: s.hints.heard}
	nodes := map[string]nominate.Node{}
	m := meant{of: map[string]map[*sharedShape]int{}, all: map[*sharedShape]int{}}
	for uid, p := range s.unbound {
		if !p.asksForNode {
			continue
		}
		h, given := s.hints.given[uid]
		machine, planned := s.planned[uid]
		lost := p.Status.NominatedNodeName != "" && s.nodes[p.Status.NominatedNodeName] == nil
		if !planned && !given && !lost {
			continue
		}
		pod := nominate.Pod{
			PodRef: translate.PodRef(p.Pod), Hint: p.Status.NominatedNodeName, Ours: lost || s.isOurs(p),
			Priority: ptr.Deref(p.Spec.Priority, 0), Tries: p.tries, TriedAt: p.triedAt, Shape: p.shape.Shape,
		}
		if given && !h.shown && now.Before(h.at.Add(hintShown)) {
			pod.Hint, pod.Ours = h.node, true
		}
		if n := s.joined(machine); n != nil {
			pod.Node, pod.Stands = n.Name, n.Name == p.Status.NominatedNodeName
			nodes[n.Name] = nominate.Node{Name: n.Name, Stage: stage(n)}
			m.add(n.Name, p.shape)
		} else if planned {
			v.Coming++
			m.add("", p.shape)
		}
		if pod.Node == h.node {
			pod.Given, pod.GivenAt = h.given, h.at
		}
		if pod.Node != "" || pod.Hint != "" {
			v.Pods = append(v.Pods, pod)
		}
	}
	slices.SortFunc(v.Pods, func(a, b nominate.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	for name, n := range nodes {
		if n.Stage == nominate.Closed {
			n.Spare = s.spare(name, m)
			nodes[name] = n
		}
	}
	v.Nodes = slices.SortedFunc(maps.Values(nodes), func(a, b nominate.Node) int { return cmp.Compare(a.Name, b.Name) })
	return v
}

// OpensAlone tells whether nothing but our own taint keeps pods from a Node.
func (s *Store) OpensAlone(node string) (opens, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, known := s.nodes[node]
	return known && opensAlone(n), known
}

func opensAlone(n *corev1.Node) bool {
	return translate.NodeReady(n) && !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key != karpenterv1.UnregisteredTaintKey && translate.IsEphemeralTaint(t)
	})
}

// meant counts pods by the Node that they are meant for and their shape, and by shape alone.
type meant struct {
	of  map[string]map[*sharedShape]int
	all map[*sharedShape]int
}

func (m meant) add(node string, shape *sharedShape) {
	if m.of[node] == nil {
		m.of[node] = map[*sharedShape]int{}
	}
	m.of[node][shape]++
	m.all[shape]++
}

// spare tells whether a Node could hold a pod that is meant for another beside its own.
func (s *Store) spare(node string, m meant) bool {
	left := translate.Quantities(s.nodes[node].Status.Allocatable)
	for _, p := range s.byNode[node] {
		left = left.MinusFloor(p.shape.Requests)
	}
	for shape, pods := range m.of[node] {
		for range pods {
			left = left.MinusFloor(shape.Requests)
		}
	}
	for shape, pods := range m.all {
		if pods > m.of[node][shape] && shape.Requests.Fits(left) {
			return true
		}
	}
	return false
}

func stage(n *corev1.Node) nominate.Stage {
	unregistered := karpenterv1.UnregisteredTaint()
	if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&unregistered) }) {
		return nominate.Closed
	}
	return nominate.Open
}

// joined returns the Node of a machine, the name of which is the Node's or the claim's.
// One that is going counts as none.
func (s *Store) joined(machine string) *corev1.Node {
	n := s.nodes[machine]
	if c, ok := s.claims[machine]; n == nil && ok && c.Status.ProviderID != "" {
		n = s.nodes[s.providers[c.Status.ProviderID]]
	}
	if n == nil || n.DeletionTimestamp != nil {
		return nil
	}
	return n
}

// asks tells whether a pod waits for a machine. One that kube-scheduler makes room for
// does not, but one that we nominated does, and one that is nominated for what is not there.
func (s *Store) asks(p *pod) bool {
	return p.asksForNode && !s.hasRoomMade(p) && (!p.failed || len(s.nodes) == 0 || s.planned[p.UID] != "")
}

// hasRoomMade tells whether kube-scheduler makes room for a pod on a machine that is there.
func (s *Store) hasRoomMade(p *pod) bool {
	nominated := p.Status.NominatedNodeName
	return nominated != "" && s.nodes[nominated] != nil && !s.isOurs(p)
}

// isOurs tells whether a pod is nominated for a machine because we meant it for that.
func (s *Store) isOurs(p *pod) bool {
	nominated := p.Status.NominatedNodeName
	if nominated == "" {
		return false
	}
	if h, ok := s.hints.given[p.UID]; ok && h.node == nominated {
		return true
	}
	n := s.joined(s.planned[p.UID])
	return n != nil && n.Name == nominated
}

// seeHint takes note of what a pod's newest state says of its hint. It comes before the
// pod's meaning is forgotten.
func (s *Store) seeHint(had, p *pod) {
	seeTry(had, p, s.opts.Now())
	machine, planned := s.planned[p.UID]
	h, given := s.hints.given[p.UID]
	switch {
	case p.Spec.NodeName != "":
		n := s.joined(machine)
		switch {
		case !planned || had == nil || had.Spec.NodeName != "": // not news
		case n != nil && n.Name == p.Spec.NodeName:
			s.hints.tell(AsPlanned)
		default:
			s.hints.tell(Astray)
		}
		delete(s.hints.given, p.UID)
		p.refusedBy = nil
	case given && p.Status.NominatedNodeName == h.node:
		own := !h.shown && had != nil && had.Status.NominatedNodeName != h.node
		h.shown = true
		s.hints.given[p.UID] = h
		if own {
			s.stirHints()
			return
		}
	}
	if planned || given {
		s.hints.heard = s.opts.Now()
		s.stirHints()
	}
}

// seeTry counts how often kube-scheduler has tried a pod in vain: then it writes why. When it
// has nothing new to write the try is not seen.
func seeTry(had, p *pod, now time.Time) {
	why := scheduled(p)
	if why == nil || why.Status == corev1.ConditionTrue {
		return
	}
	if had != nil {
		lost := had.Status.NominatedNodeName != "" && p.Status.NominatedNodeName == ""
		if before := scheduled(had); before != nil && before.Message == why.Message && !lost {
			return
		}
	}
	p.tries, p.triedAt = p.tries+1, now
}

func scheduled(p *pod) *corev1.PodCondition {
	i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
	if i < 0 {
		return nil
	}
	return &p.Status.Conditions[i]
}

func (s *Store) stirHints() {
	if s.hints.stir != nil {
		s.hints.stir()
	}
}
