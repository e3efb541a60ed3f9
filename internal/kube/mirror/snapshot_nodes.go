package mirror

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// addNodes adds every Node, and every NodeClaim that has none yet, sorted by name.
func (b *builder) addNodes() {
	s := b.store
	all, held := s.nodes.list(), s.gangs.hold()
	limits := typeLimits(b.snap.Pools)
	b.snap.Nodes = make([]cluster.Node, len(all))
	for i, n := range all {
		s.views.refresh(n, b.now)
		v := &b.snap.Nodes[i]
		*v = n.view
		if np := s.pools.objects[v.Pool]; !s.opts.StaticCapacity && n.claim != nil && np != nil && translate.Static(np) {
			ageless := translate.Ageless(n.claim.object)
			v.Expires, v.Reclaimed = translate.Expires(ageless), translate.Reclaimed(ageless)
		}
		if why := held[n.name]; why != "" && (v.DoNotDisrupt == "" || v.DoNotDisruptByPods) {
			v.DoNotDisrupt, v.DoNotDisruptByPods = why, false
		}
		limited := b.limit(v, n, limits[typeOf{v.Pool, v.Labels[label.InstanceType]}])
		b.attach(v, n, limited)
		b.addPlanned(v)
	}
}

// typeOf names an instance type of a NodePool.
type typeOf struct{ pool, name string }

// typeLimits returns how many volumes nodes of each instance type can attach, where the provider
// says so.
func typeLimits(pools []cluster.Pool) map[typeOf]quantity.List {
	limits := map[typeOf]quantity.List{}
	for i := range pools {
		for _, t := range pools[i].Types {
			if len(t.VolumeLimits) > 0 {
				limits[typeOf{pools[i].Name, t.Name}] = t.VolumeLimits
			}
		}
	}
	return limits
}

// limit adds how many volumes a node can attach by its instance type, of drivers of which its
// CSINode says nothing, and reports whether there are any.
func (b *builder) limit(v *cluster.Node, n *node, limits quantity.List) bool {
	if len(limits) == 0 {
		return false
	}
	if l := &n.limited; !isOne(l.own, v.Allocatable) || !isOne(l.limits, limits) {
		*l = limitedRoom{own: v.Allocatable, limits: limits, room: maps.Clone(v.Allocatable)}
		said := b.store.volumes.limits[v.Name]
		for name, limit := range limits {
			if _, ok := said[name]; !ok {
				l.room[name] = limit
			}
		}
	}
	v.Allocatable = n.limited.room
	return true
}

// limitedRoom is what a node has for pods, with the limits of its instance type. It is made of own, what the view of the node
// has, and made again when one of the two is another list: own is another one whenever what the CSINode says changes.
type limitedRoom struct{ own, limits, room quantity.List }

// isOne reports whether two lists are one and the same.
func isOne(a, b quantity.List) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}

// attach counts the volumes that a node has against those that it can attach: those of its
// pods, each once, and those that are attached without a pod.
func (b *builder) attach(v *cluster.Node, n *node, limited bool) {
	attached := b.store.volumes.attachments[n.name]
	if !n.hasLimits && !limited || !n.hasClaims && len(attached) == 0 {
		return
	}
	v.Used = maps.Clone(v.Used)
	type attachment struct{ driver, handle string }
	has := map[attachment]bool{}
	for _, p := range b.store.pods.byNode[n.name] {
		for _, c := range translate.ClaimsOf(p.object) {
			b.constraints.complete(p.object, &c)
			driver, handle := c.Attachment()
			has[attachment{driver, handle}] = true
		}
	}
	for _, a := range attached {
		if name := a.Spec.Source.PersistentVolumeName; name != nil && b.store.volumes.all[*name] != nil {
			driver, handle := translate.VolumeHandle(b.store.volumes.all[*name])
			has[attachment{driver, handle}] = true
		}
	}
	for a := range has {
		// More volumes than the limit must not keep out pods without volumes.
		if name := quantity.AttachPrefix + a.driver; v.Used[name] < v.Allocatable[name] {
			v.Used[name]++
		}
	}
}

// addPlanned says how many pods are planned for a node that are not there.
func (b *builder) addPlanned(v *cluster.Node) {
	plannedFor := b.store.assignments.plannedFor
	v.Planned = len(plannedFor[v.Name])
	if v.Claim != v.Name {
		v.Planned += len(plannedFor[v.Claim])
	}
	reserved := b.store.assignments.reserved
	until := reserved[v.Name]
	if c := reserved[v.Claim]; v.Claim != "" && c.After(until) {
		until = c
	}
	if until.After(b.now) {
		v.Planned, v.PlannedUntil = max(v.Planned, 1), until
	}
}

// reservePreempted takes from nodes what kube-scheduler keeps for pods for which it preempts
// others there. As long as the others have not ended, both count, as in kube-scheduler.
func (b *builder) reservePreempted() {
	var preempting []*pod
	for _, p := range b.store.pods.unbound {
		if p.asksForNode && b.store.assignments.preempts(p) {
			preempting = append(preempting, p)
		}
	}
	slices.SortFunc(preempting, func(a, b *pod) int { return cmp.Compare(a.object.UID, b.object.UID) })
	for _, p := range preempting {
		at, ok := slices.BinarySearchFunc(b.snap.Nodes, p.object.Status.NominatedNodeName, func(n cluster.Node, name string) int { return cmp.Compare(n.Name, name) })
		if !ok {
			continue
		}
		v := &b.snap.Nodes[at]
		v.Used = v.Used.Plus(p.constraints.constraints.Requests)
		v.Ports = append(slices.Clip(v.Ports), p.constraints.constraints.Ports...)
		v.Empty = false
	}
}
