package mirror

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// gangs hold the PodGroups, and the pods that name them.
type gangs struct {
	listeners *listeners

	groups map[types.NamespacedName]podGroup
	pods   map[types.NamespacedName]map[types.UID]*pod
}

// podGroup is a PodGroup as last seen.
type podGroup struct {
	gang   cluster.Gang
	isGang bool
	// together: its pods may only be disrupted all at once.
	together bool
}

func newGangs(l *listeners) *gangs {
	return &gangs{listeners: l, groups: map[types.NamespacedName]podGroup{}, pods: map[types.NamespacedName]map[types.UID]*pod{}}
}

func (x *gangs) upsert(g *schedulingv1beta1.PodGroup) {
	key := types.NamespacedName{Namespace: g.Namespace, Name: g.Name}
	had, known := x.groups[key]
	gang, isGang := translate.Gang(g)
	x.groups[key] = podGroup{gang: gang, isGang: isGang, together: g.Spec.DisruptionMode != nil && g.Spec.DisruptionMode.All != nil}
	if !known || had.gang.Minimum != gang.Minimum {
		x.listeners.work(fmt.Sprintf("podgroup/%s/%d", key, gang.Minimum))
	}
}

func (x *gangs) remove(g *schedulingv1beta1.PodGroup) {
	delete(x.groups, types.NamespacedName{Namespace: g.Namespace, Name: g.Name})
}

// addPod adds a pod to those of its PodGroup; removePod takes it away.
func (x *gangs) addPod(p *pod) {
	key, of := podGroupKey(p)
	if !of {
		return
	}
	if x.pods[key] == nil {
		x.pods[key] = map[types.UID]*pod{}
	}
	x.pods[key][p.object.UID] = p
}

func (x *gangs) removePod(p *pod) {
	key, of := podGroupKey(p)
	if !of {
		return
	}
	if delete(x.pods[key], p.object.UID); len(x.pods[key]) == 0 {
		delete(x.pods, key)
	}
}

func podGroupKey(p *pod) (key types.NamespacedName, of bool) {
	name := translate.PodGroupOf(p.object)
	return types.NamespacedName{Namespace: p.object.Namespace, Name: name}, name != ""
}

// nameOf returns the name of a pod's gang; empty: none. A PodGroup that is not known may be one.
func (x *gangs) nameOf(p *pod) string {
	key, of := podGroupKey(p)
	if g, known := x.groups[key]; !of || known && !g.isGang {
		return ""
	}
	return key.Name
}

// isWaiting reports whether a gang is known, and kube-scheduler binds none of its pods before it
// can bind some of them at once.
func (x *gangs) isWaiting(key types.NamespacedName) bool {
	g := x.groups[key]
	bound := 0
	for _, p := range x.pods[key] {
		if p.object.Spec.NodeName != "" && translate.Active(p.object) {
			bound++
		}
	}
	return g.isGang && bound < g.gang.Minimum
}

// hold returns why nodes are kept from disruption, by Node: without their pods a gang would have
// fewer than it needs, or the pods of a PodGroup may only be disrupted all at once. Of a gang with more pods than it
// needs, one node may go at a time.
func (x *gangs) hold() map[string]string {
	var held map[string]string
	for key, pods := range x.pods {
		g := x.groups[key]
		if !g.isGang && !g.together {
			continue
		}
		bound, on := 0, map[string]int{}
		for _, p := range pods {
			if node := p.object.Spec.NodeName; node != "" && translate.Active(p.object) {
				on[node]++
				bound++
			}
		}
		free := "" // the node that may go
		for _, node := range slices.Sorted(maps.Keys(on)) {
			if free == "" && !g.together && bound-on[node] >= g.gang.Minimum {
				free = node
				continue
			}
			if held == nil {
				held = map[string]string{}
			}
			why := fmt.Sprintf("it has %d pods of PodGroup %s, which needs %d of its %d", on[node], key, g.gang.Minimum, bound)
			if g.together {
				why = fmt.Sprintf("it has %d of the %d pods of PodGroup %s, whose disruptionMode is all", on[node], bound, key)
			}
			if held[node] == "" || why < held[node] {
				held[node] = why
			}
		}
	}
	return held
}

// addTo adds the known gangs of a snapshot's pending pods to the snapshot. hasRoom reports
// whether a pod that has no node is about to get one by preemption.
func (x *gangs) addTo(snap *cluster.Snapshot, hasRoom func(*pod) bool) {
	pending := map[types.NamespacedName]map[types.UID]bool{}
	for i := range snap.Pending {
		p := &snap.Pending[i]
		key := types.NamespacedName{Namespace: p.Namespace, Name: p.Gang}
		if _, known := x.groups[key]; !known || p.Gang == "" {
			continue
		}
		if pending[key] == nil {
			pending[key] = map[types.UID]bool{}
		}
		pending[key][types.UID(p.UID)] = true
	}
	for key, asking := range pending {
		gang := x.groups[key].gang
		for uid, p := range x.pods[key] {
			if !translate.Active(p.object) {
				continue
			}
			gang.Known++
			if !asking[uid] && (p.object.Spec.NodeName != "" || hasRoom(p)) {
				gang.Bound++
			}
		}
		snap.Gangs = append(snap.Gangs, gang)
	}
	slices.SortFunc(snap.Gangs, func(a, b cluster.Gang) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}
