package nominate

import "time"

// This file has the nodes of a gang open together. kube-scheduler places the pods of a gang all
// at once or none: each node that opens before the last one wakes it in vain, and it then clears
// the nominations of the pods that would have fitted.

// gangMost is how long a node that is ready waits for the other nodes of its pods' gang. The pods
// of a gang whose last node is that late are worth less than the room they keep from others.
const gangMost = 3 * time.Minute

// gang is a gang of which some pods have a target node and too few are bound.
type gang struct {
	// complete: the target nodes of all its pods are open or ready to be.
	complete bool
	// readyAt is when the last of its nodes became ready.
	readyAt time.Time
}

// unit is a node that opens for itself, or the nodes of one gang.
type unit struct {
	gang  *gang
	nodes []*Node
	// first is how many pods kube-scheduler tries before the first pod of these nodes.
	first int
}

// findGangs finds the gangs, and the nodes that only wait for pods of one gang. A node that other
// pods are planned for as well does not wait for a gang.
func (d *decision) findGangs() {
	for i := range d.Pods {
		p := &d.Pods[i]
		if p.Gang == "" {
			continue
		}
		if d.gangs == nil {
			d.gangs, d.gangOf = map[string]*gang{}, map[string]*gang{}
		}
		g := d.gangs[p.Gang]
		if g == nil {
			g = &gang{complete: d.ComingOf[p.Gang] == 0}
			d.gangs[p.Gang] = g
		}
		n := d.nodes[p.Node]
		if n == nil {
			continue
		}
		d.gangOf[p.Node] = g
		switch {
		case n.Stage == Closed, n.Stage == Waiting && n.ReadyAt.IsZero():
			g.complete = false
		case n.Stage == Waiting && n.ReadyAt.After(g.readyAt):
			g.readyAt = n.ReadyAt
		}
	}
	for i := range d.Pods {
		if p := &d.Pods[i]; d.gangOf[p.Node] != d.gangs[p.Gang] {
			delete(d.gangOf, p.Node)
		}
	}
}

// waitsForGang reports whether a node that is ready waits for other nodes of its gang.
func (d *decision) waitsForGang(n *Node) bool {
	g := d.gangOf[n.Name]
	if g == nil || g.complete {
		return false
	}
	due := n.ReadyAt.Add(gangMost)
	if !due.After(d.At) {
		return false
	}
	d.until(due)
	return true
}

// readyAt returns since when nothing but our taint keeps pods from a node and from the other nodes
// of its gang.
func (d *decision) readyAt(n *Node) time.Time {
	if g := d.gangOf[n.Name]; g != nil && g.complete {
		return g.readyAt
	}
	return n.ReadyAt
}

// units returns the nodes as what opens together. Of a gang kube-scheduler tries all pods when it
// tries the first.
func (d *decision) units(ready []*Node, first map[string]int) []unit {
	units := make([]unit, 0, len(ready))
	at := map[*gang]int{}
	for _, n := range ready {
		g := d.gangOf[n.Name]
		if i, known := at[g]; known && g != nil {
			u := &units[i]
			u.nodes, u.first = append(u.nodes, n), min(u.first, first[n.Name])
			continue
		}
		at[g] = len(units)
		units = append(units, unit{gang: g, nodes: []*Node{n}, first: first[n.Name]})
	}
	return units
}
