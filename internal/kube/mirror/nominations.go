package mirror

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dovetail-sh/dovetail/internal/core/nominate"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// nominationShown is how long a nomination that this process wrote counts before the watch has
// shown it.
const nominationShown = 5 * time.Second

// nominationView is a nominate.View in the making.
type nominationView struct {
	of    *assignments
	now   time.Time
	view  nominate.View
	nodes map[string]nominate.Node
	// planned counts the unbound pods by the Node that they are planned for and by their
	// constraints; those whose Node has not joined are under "". all counts them by constraints alone.
	planned map[string]map[*sharedConstraints]int
	all     map[*sharedConstraints]int
	// waiting are the gangs that were asked for, and whether each waits for nodes for several pods.
	waiting map[types.NamespacedName]bool
}

// viewNominations returns the unbound pods that are planned for a node or carry a nomination
// of ours, sorted by name, and the Nodes that they are planned for.
func (x *assignments) viewNominations(now time.Time) nominate.View {
	v := nominationView{
		of: x, now: now, view: nominate.View{At: now, LastPodEvent: x.lastEvent}, nodes: map[string]nominate.Node{},
		planned: map[string]map[*sharedConstraints]int{}, all: map[*sharedConstraints]int{},
		waiting: map[types.NamespacedName]bool{},
	}
	v.view.Alike = x.areAlike()
	for uid, p := range x.pods.unbound {
		if p.asksForNode {
			v.add(uid, p)
		}
	}
	slices.SortFunc(v.view.Pods, func(a, b nominate.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	for name, n := range v.nodes {
		if n.Stage == nominate.Closed {
			n.HasRoom = v.hasFreeRoom(name)
			v.nodes[name] = n
		}
	}
	v.view.Nodes = slices.SortedFunc(maps.Values(v.nodes), func(a, b nominate.Node) int { return cmp.Compare(a.Name, b.Name) })
	return v.view
}

// areAlike reports whether it makes no difference which of the pods that kube-scheduler may try is bound to
// which node: all are the same, and none has a rule about others.
func (x *assignments) areAlike() bool {
	var first *pod
	for _, p := range x.pods.unbound {
		if !p.asksForNode && !isUntried(p.object) {
			continue
		}
		if first == nil {
			first = p
		}
		if rules := &p.constraints.constraints.Rules; !isAlike(first, p) || len(rules.Spread)+len(rules.Affinity)+len(rules.AntiAffinity) > 0 {
			return false
		}
	}
	return first != nil
}

func (v *nominationView) add(uid types.UID, p *pod) {
	written, isWritten := v.of.nominations[uid]
	planned, isPlanned := v.of.planned[uid]
	nominated := p.object.Status.NominatedNodeName
	isLost := nominated != "" && v.of.nodes.nodes[nominated] == nil
	if !isPlanned && !isWritten && !isLost {
		return
	}
	pod := nominate.Pod{
		PodRef: translate.PodRef(p.object), Nominated: nominated, Ours: isLost || v.of.isOurs(p),
		Priority: ptr.Deref(p.object.Spec.Priority, 0), Tries: p.history.tries, TriedAt: p.history.triedAt, Constraints: p.constraints.constraints,
		Gang: v.gangOf(p),
	}
	if isWritten && !written.isSeen && v.now.Before(written.at.Add(nominationShown)) {
		pod.Nominated, pod.Ours = written.node, true
	}
	if n := v.of.nodes.joined(planned); n != nil {
		pod.Node, pod.Stands = n.Name, n.Name == nominated
		v.nodes[n.Name] = nominate.Node{Name: n.Name, Stage: stage(n)}
		v.count(n.Name, p.constraints)
	} else if isPlanned {
		v.view.Coming++
		if pod.Gang != "" {
			if v.view.ComingOf == nil {
				v.view.ComingOf = map[string]int{}
			}
			v.view.ComingOf[pod.Gang]++
		}
		v.count("", p.constraints)
	}
	if pod.Node == written.node {
		pod.Given, pod.GivenAt = written.writes, written.at
	}
	if pod.Node != "" || pod.Nominated != "" {
		v.view.Pods = append(v.view.Pods, pod)
	}
}

// gangOf names the gang of a pod that waits for nodes together with others; empty: none.
func (v *nominationView) gangOf(p *pod) string {
	key, of := podGroupKey(p)
	if !of {
		return ""
	}
	waits, known := v.waiting[key]
	if !known {
		waits = v.of.gangs.isWaiting(key)
		v.waiting[key] = waits
	}
	if !waits {
		return ""
	}
	return key.String()
}

func (v *nominationView) count(node string, constraints *sharedConstraints) {
	if v.planned[node] == nil {
		v.planned[node] = map[*sharedConstraints]int{}
	}
	v.planned[node][constraints]++
	v.all[constraints]++
}

// hasFreeRoom reports whether a Node could take a pod that is planned for another one besides
// its own.
func (v *nominationView) hasFreeRoom(node string) bool {
	left := translate.Quantities(v.of.nodes.get(node).Status.Allocatable)
	for _, p := range v.of.pods.byNode[node] {
		left = left.MinusFloor(p.constraints.constraints.Requests)
	}
	for constraints, pods := range v.planned[node] {
		for range pods {
			left = left.MinusFloor(constraints.constraints.Requests)
		}
	}
	for constraints, pods := range v.all {
		if pods > v.planned[node][constraints] && constraints.constraints.Requests.Fits(left) {
			return true
		}
	}
	return false
}
