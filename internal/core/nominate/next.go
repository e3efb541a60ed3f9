package nominate

import "time"

const (
	// notReadyMost is how long we keep a node closed that is not ready. More would not help:
	// what makes it ready may be a pod that must run on it.
	notReadyMost = 10 * time.Second
	// unplannedMost is how long a node stays closed that is no pod's target node: the plan
	// for it may not have been observed yet.
	unplannedMost = 150 * time.Millisecond
	// A pod is nominated for one node up to givenFast times as soon as the nomination is gone,
	// then once in givenPause, and givenMost times in all: then the pod does not fit there.
	givenFast  = 10
	givenPause = time.Second
	givenMost  = 30
	// weightMost is the largest weight (cluster.Constraints.Weight) of a pod that is nominated.
	// kube-scheduler checks a nominated pod's constraints against every other pod nominated for
	// its node each time; it finds a node for a heavier pod without a nomination. Ordinary pods
	// weigh less than 24.
	weightMost = 200
)

// Next decides what to do now.
func Next(v View) Step {
	d := decision{View: v, nodes: map[string]*Node{}, pods: map[string]int{}, chosen: map[string]bool{}, lacking: map[string]int{}}
	for i := range v.Nodes {
		d.nodes[v.Nodes[i].Name] = &v.Nodes[i]
	}
	for i := range v.Pods {
		d.pods[v.Pods[i].Node]++
	}
	d.findGangs()
	d.countNominations()
	batch := d.choose()
	for i := range v.Pods {
		d.nominate(&v.Pods[i])
	}
	d.open(batch)
	return d.step
}

// choose opens the nodes that have waited long enough and returns the nodes that it chooses
// besides: they open when the nominations of their pods have been seen.
func (d *decision) choose() []unit {
	var ready []*Node
	for i := range d.Nodes {
		n := &d.Nodes[i]
		switch {
		case n.Stage != Waiting:
		case n.ReadyAt.IsZero():
			d.openAt(n, n.Asked.Add(notReadyMost))
		case d.pods[n.Name] == 0:
			d.openAt(n, n.ReadyAt.Add(unplannedMost))
		case d.waitsForGang(n):
		case d.Alike:
			d.openAt(n, d.readyAt(n).Add(d.roomWait(n)))
		case !d.openAt(n, d.readyAt(n).Add(d.WaitMost)):
			ready = append(ready, n)
		}
	}
	if len(ready) == 0 {
		return nil
	}
	return d.safe(ready)
}

// open opens the units of the batch whose pods' nominations have all been seen. While
// kube-scheduler is idle it opens all nodes or none, because the first one wakes kube-scheduler.
func (d *decision) open(batch []unit) {
	lacking := 0
	for i := range batch {
		lacking += d.lackingOf(&batch[i])
	}
	if lacking > 0 && d.idle() {
		return
	}
	for i := range batch {
		if d.lackingOf(&batch[i]) > 0 {
			continue
		}
		for _, n := range batch[i].nodes {
			d.step.Open = append(d.step.Open, n.Name)
		}
	}
}

// lackingOf returns how many nominations of the pods of a unit have not been seen.
func (d *decision) lackingOf(u *unit) (lacking int) {
	for _, n := range u.nodes {
		lacking += d.lacking[n.Name]
	}
	return lacking
}

// nominate gives the pod the nomination that it should have.
func (d *decision) nominate(p *Pod) {
	n := d.nodes[p.Node]
	open := n != nil && (n.Stage == Open || n.Stage == Opening || d.chosen[n.Name])
	switch {
	case p.Nominated == p.Node:
		if !p.Stands {
			d.lacking[p.Node]++
		}
		return
	case d.Alike && p.Nominated == "" && n != nil && !n.Asked.IsZero():
		return
	case p.Nominated != "" && !p.Ours:
		return
	case p.Nominated == "" && p.Constraints != nil && p.Constraints.Weight() > weightMost:
		return
	case !open, d.nominated.exceedsSkew(p):
		if p.Nominated != "" {
			d.step.Clear = append(d.step.Clear, *p)
		}
		return
	case p.Given >= givenMost:
		return
	}
	if due := p.GivenAt.Add(givenPause); p.Given >= givenFast && due.After(d.At) {
		d.until(due)
		return
	}
	d.step.Set = append(d.step.Set, *p)
	d.lacking[p.Node]++
	d.nominated.add(p.Node, p.Constraints)
}

func (d *decision) countNominations() {
	d.nominated = nominations{}
	for i := range d.Pods {
		d.nominated.add(d.Pods[i].Nominated, d.Pods[i].Constraints)
	}
}
