package savings

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/view"
)

// WindowFormat names the form of a window as JSON.
const WindowFormat = "dovetail-savings-window/1"

// seenWithin is how long after a launch the journal is read for what it became. A node that has not registered by then is given up.
const seenWithin = time.Hour

// Window is what the pods that asked for a node in a span of time cost, by the decisions of a journal. Prices are in dollars per hour.
type Window struct {
	Format string `json:"format"`
	// From is where the journal was read.
	From  string    `json:"from,omitempty"`
	Since time.Time `json:"since"`
	// First and Last are the first and last decision in the window; Oldest is the oldest that is kept.
	First     time.Time `json:"first"`
	Last      time.Time `json:"last"`
	Oldest    time.Time `json:"oldest"`
	Decisions int       `json:"decisions"`
	// Pods is how many asked for a node. For Launched of them nodes were launched, Placed had room on others, and Refused nothing could take, by
	// the last decision about each.
	Pods     int `json:"pods"`
	Launched int `json:"podsLaunchedFor"`
	Placed   int `json:"podsPlaced"`
	Refused  int `json:"podsRefused"`
	// Nodes is how many were launched. Unseen of them are in no later snapshot; their price is the planned one.
	Nodes  int `json:"nodes"`
	Unseen int `json:"nodesNotSeen"`
	// Lost are launches that did not become a node; others came in their place. They are in no price.
	Lost int `json:"launchesLost"`
	// Now is what the nodes cost that came, Planned what they were to cost.
	Now     float64 `json:"launchedPerHour"`
	Planned float64 `json:"plannedPerHour"`
	// BoundEach is the sum of what the launches of each decision must cost at least; it leaves out Unbounded decisions.
	BoundEach float64 `json:"leastByDecisionPerHour"`
	Unbounded int     `json:"decisionsWithoutBound"`
	// After is what nodes cost that one decision about all the pods launches, Bound what nodes for them must cost at least. Apart are pods that it
	// refuses, or of which only the plan is kept: they are in neither.
	After      float64 `json:"atOncePerHour"`
	NodesAfter int     `json:"nodesAtOnce"`
	Bound      float64 `json:"leastPerHour"`
	Apart      int     `json:"podsNotAtOnce"`

	Pools     []Line   `json:"pools"`
	Types     []Line   `json:"types"`
	Workloads []Line   `json:"workloads"`
	Presumed  []string `json:"presumed"`
}

// ErrNoDemand is returned where no decision of a journal launched a node for pods in the window.
var ErrNoDemand = errors.New("no node was launched for pods")

// windowLaunch is a node that was launched for pods.
type windowLaunch struct {
	at          time.Time
	claim       string
	launch      *plan.Launch
	host        *host
	isSeen      bool
	hasSnapshot bool
}

// windowReader reads the decisions of a window.
type windowReader struct {
	out      *Window
	fate     map[cluster.PodRef]*int // what the last decision about a pod counted
	launches []*windowLaunch
	byClaim  map[string]*windowLaunch
	pods     map[cluster.PodRef]cluster.Pod
	work     map[string]string // workload of each pod
	alike    map[string][]*cluster.Constraints
	gangs    map[string]cluster.Gang
	lowest   lowest
	newest   *record.Decision // of provisioning, with its snapshot
	// bounds are those of decisions, by their launches.
	bounds []windowBound
}

// windowBound is what the launches of one decision must cost at least; the others of its launches became no node of the window.
type windowBound struct {
	bound    float64
	launches []*windowLaunch
	others   float64 // planned price
}

// MakeWindow returns what the pods cost that asked for a node since a time. The error is ErrNoDemand if nothing was launched for any.
func MakeWindow(file *journal.File, from string, since time.Time) (*Window, error) {
	r := &windowReader{
		out:  &Window{Format: WindowFormat, From: from, Since: since},
		fate: map[cluster.PodRef]*int{}, byClaim: map[string]*windowLaunch{}, pods: map[cluster.PodRef]cluster.Pod{}, work: map[string]string{},
		alike: map[string][]*cluster.Constraints{}, gangs: map[string]cluster.Gang{}, lowest: lowest{},
	}
	for i := range file.Decisions {
		e := &file.Decisions[i]
		if i == 0 {
			r.out.Oldest = e.At
		}
		if e.At.Before(since) {
			continue
		}
		if err := r.read(e); err != nil {
			return nil, err
		}
	}
	r.lost()
	if len(r.launches) == 0 {
		return nil, ErrNoDemand
	}
	r.sum()
	return r.out, nil
}

// read takes one decision in. Its snapshot is read if pods or nodes of the window are in it.
func (r *windowReader) read(e *journal.Entry) error {
	isOurs := e.Loop == record.Provisioning
	if !isOurs && !r.waits(e.At) {
		return nil
	}
	d, hasSnapshot, err := e.Whole()
	if err != nil {
		return fmt.Errorf("read decision %s: %w", e.ID, err)
	}
	if hasSnapshot {
		r.lowest.learn(d.Snapshot)
		r.see(d.Snapshot)
	}
	if !isOurs {
		return nil
	}
	if r.out.First.IsZero() {
		r.out.First = e.At
	}
	r.out.Last = e.At
	r.counted(&d.Plan)
	if hasSnapshot {
		r.newest = d
		r.learn(d)
	}
	r.launched(d, hasSnapshot)
	return nil
}

// waits reports whether it is not known yet what a launch became.
func (r *windowReader) waits(at time.Time) bool {
	return slices.ContainsFunc(r.launches, func(l *windowLaunch) bool { return !l.isSeen && at.Sub(l.at) < seenWithin })
}

// see finds nodes that were launched before.
func (r *windowReader) see(snap *cluster.Snapshot) {
	var prices *cluster.Prices
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		l := r.byClaim[n.Claim]
		if l == nil || l.isSeen || n.InFlight != nil || n.Labels[label.InstanceType] == "" {
			continue
		}
		if prices == nil {
			prices = cluster.NewPrices(snap)
		}
		price, known := prices.Of(n)
		if !known {
			continue
		}
		l.isSeen = true
		l.host.Node = Node{l.claim, n.Labels[label.InstanceType], n.Labels[label.Zone], n.Labels[label.CapacityType], n.Pool, price}
		if len(n.Allocatable) > 0 {
			l.host.room = n.Allocatable
		}
	}
}

// counted notes what a decision says of each pod; the last one counts.
func (r *windowReader) counted(p *plan.Plan) {
	for i := range p.Launches {
		for _, ref := range p.Launches[i].Pods {
			r.fate[ref] = &r.out.Launched
		}
	}
	for i := range p.Assignments {
		if r.fate[p.Assignments[i].Pod] != &r.out.Launched { // else it waits for the node that was launched for it
			r.fate[p.Assignments[i].Pod] = &r.out.Placed
		}
	}
	for i := range p.Refusals {
		r.fate[p.Refusals[i].Pod] = &r.out.Refused
	}
}

// learn takes in the pods that a decision launches for.
func (r *windowReader) learn(d *record.Decision) {
	wanted := map[cluster.PodRef]bool{}
	for i := range d.Plan.Launches {
		for _, ref := range d.Plan.Launches[i].Pods {
			wanted[ref] = true
		}
	}
	workload := view.WorkloadsOf(d.Snapshot)
	for i := range d.Snapshot.Pending {
		p := &d.Snapshot.Pending[i]
		if !wanted[p.PodRef] || p.Constraints == nil {
			continue
		}
		pod := *p
		pod.Planned, pod.Constraints = "", r.shared(p.Constraints)
		r.pods[p.PodRef] = pod
		w := workload(p)
		r.work[p.String()] = fmt.Sprintf("%s %s/%s", w.Namespace, cmp.Or(w.Kind, "Pod"), w.Name)
	}
	for _, g := range d.Snapshot.Gangs {
		r.gangs[g.Namespace+"/"+g.Name] = g
	}
}

// shared returns one value for all constraints that are equal: pods with the same value are decided about together.
func (r *windowReader) shared(c *cluster.Constraints) *cluster.Constraints {
	key := fmt.Sprint(c.Namespace, c.Labels, c.Requests)
	for _, known := range r.alike[key] {
		if known == c || reflect.DeepEqual(known, c) {
			return known
		}
	}
	r.alike[key] = append(r.alike[key], c)
	return c
}

// launched takes in the launches of a decision that are for pods.
func (r *windowReader) launched(d *record.Decision, hasSnapshot bool) {
	b := windowBound{bound: d.Plan.BoundHourly}
	for i := range d.Plan.Launches {
		launch, claim := &d.Plan.Launches[i], ""
		if i < len(d.Claims) {
			claim = d.Claims[i]
		}
		if claim == "" || len(launch.Pods) == 0 {
			b.others += launch.PriceHourly
			continue
		}
		l := &windowLaunch{at: d.Plan.At, claim: claim, launch: launch, hasSnapshot: hasSnapshot, host: plannedHost(d.Snapshot, launch, claim)}
		if l.at.IsZero() {
			l.at = d.At()
		}
		r.launches, r.byClaim[claim], b.launches = append(r.launches, l), l, append(b.launches, l)
	}
	if len(b.launches) > 0 {
		r.bounds = append(r.bounds, b)
	}
}

// plannedHost returns the node of a launch as it was planned; its pods are added later.
func plannedHost(snap *cluster.Snapshot, l *plan.Launch, name string) *host {
	h := &host{Node: Node{Name: name, Pool: l.Pool, Price: l.PriceHourly}, room: l.Requests, rest: l.Requests, pods: map[string]*cluster.Constraints{}}
	if len(l.Types) > 0 {
		h.Type = l.Types[0]
	}
	pool, _ := snap.PoolByName(l.Pool)
	if pool == nil {
		return h
	}
	for _, t := range pool.Types {
		if t.Name != h.Type {
			continue
		}
		h.room = t.Allocatable()
		for i := range t.Offerings {
			if o := &t.Offerings[i]; o.HasPrice() && o.Launchable() && o.PriceHourly == l.PriceHourly {
				h.Zone, h.Kind = o.Zone, o.CapacityType
				break
			}
		}
	}
	return h
}

// lost takes out the launches that became no node: nodes were launched for all their pods again.
func (r *windowReader) lost() {
	last := map[cluster.PodRef]*windowLaunch{}
	for _, l := range r.launches {
		for _, ref := range l.launch.Pods {
			last[ref] = l
		}
	}
	r.launches = slices.DeleteFunc(r.launches, func(l *windowLaunch) bool {
		isLost := !l.isSeen && !slices.ContainsFunc(l.launch.Pods, func(ref cluster.PodRef) bool { return last[ref] == l })
		if isLost {
			r.out.Lost++
			delete(r.byClaim, l.claim)
		}
		return isLost
	})
}

// sum fills in the figures.
func (r *windowReader) sum() {
	w := r.out
	for _, count := range r.fate {
		*count++
	}
	w.Pods = len(r.fate)
	asLaunched := &fleet{hosts: map[string]*host{}, on: map[string]string{}}
	for _, l := range r.launches {
		for _, ref := range l.launch.Pods {
			if p, known := r.pods[ref]; known {
				l.host.pods[ref.String()] = p.Constraints
				l.host.rest = l.host.rest.MinusFloor(p.Constraints.Requests)
			}
		}
		asLaunched.hosts[l.claim] = l.host
		w.Nodes, w.Now, w.Planned = w.Nodes+1, w.Now+l.host.Price, w.Planned+l.launch.PriceHourly
		if !l.isSeen {
			w.Unseen++
		}
	}
	r.sumBounds()
	pools, types, work := map[string]*Line{}, map[string]*Line{}, map[string]*Line{}
	asLaunched.count(types, pools, setNow)
	asLaunched.spent(work, r.work, setNow)
	r.presume()
	if r.newest != nil {
		at := r.atOnce()
		at.count(types, pools, setAfter)
		at.spent(work, r.work, setAfter)
	}
	for _, l := range types {
		l.Note = "" // the prices of one type may differ
	}
	w.Pools, w.Types, w.Workloads = sorted(pools), sorted(types), sorted(work)
}

// sumBounds adds up what the launches of each decision must cost at least. What part of a decision's launches is not counted cost at most its
// planned price, so the rest costs at least the bound without that.
func (r *windowReader) sumBounds() {
	for i := range r.bounds {
		b := &r.bounds[i]
		others, counted := b.others, 0
		for _, l := range b.launches {
			if r.byClaim[l.claim] == nil {
				others += l.launch.PriceHourly
			} else {
				counted++
			}
		}
		switch {
		case counted == 0:
			continue
		case b.bound == 0:
			r.out.Unbounded++
		default:
			r.out.BoundEach += max(0, b.bound-others)
		}
		r.out.Decisions++
	}
}

// atOnce decides about all the pods that nodes were launched for, as if they had asked at the same time for nodes of their own.
func (r *windowReader) atOnce() *fleet {
	snap := *r.newest.Snapshot
	snap.Pending, snap.Nodes, snap.Excluded, snap.Buffers, snap.PDBs, snap.Gangs = nil, nil, nil, nil, nil, nil
	asked := map[cluster.PodRef]bool{}
	for _, l := range r.launches {
		for _, ref := range l.launch.Pods {
			p, known := r.pods[ref]
			if !known {
				r.out.Apart++
			} else if !asked[ref] {
				snap.Pending = append(snap.Pending, p)
			}
			asked[ref] = true
		}
	}
	slices.SortFunc(snap.Pending, func(a, b cluster.Pod) int { return a.Compare(b.PodRef) })
	for _, g := range r.gangs {
		snap.Gangs = append(snap.Gangs, g)
	}
	slices.SortFunc(snap.Gangs, func(a, b cluster.Gang) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	snap.Pools = r.lowest.pools(snap.Pools, r.launches)
	p := pack.Decide(&snap, r.newest.Pack)
	f := &fleet{hosts: map[string]*host{}, on: map[string]string{}}
	for i := range p.Launches {
		l := &p.Launches[i]
		h := plannedHost(&snap, l, fmt.Sprint(i))
		for _, ref := range l.Pods {
			c := r.pods[ref].Constraints
			h.pods[ref.String()] = c
			h.rest = h.rest.MinusFloor(c.Requests)
		}
		f.hosts[h.Name] = h
	}
	w := r.out
	w.After, w.NodesAfter, w.Bound = p.PriceHourly(), len(p.Launches), p.BoundHourly
	w.Apart += len(p.Refusals)
	if len(p.GivenUp) > 0 {
		w.Presumed = append(w.Presumed, "The decision about all pods at once took too much effort and was given up in part: it may be dearer than need be.")
	}
	return f
}

func (r *windowReader) presume() {
	w := r.out
	w.Presumed = []string{
		"Prices are rates: what the nodes cost an hour while they ran, not for how long they did.",
		"They are the controller's, of the time of each decision.",
		"All at once presumes that all these pods asked at the same time, for nodes of their own, and runs on the NodePools of the last decision. Each offering is taken at the lowest price that it had in the window, and as available if it ever was: so no shortage is in it.",
		"Pods that had room on nodes that ran already cost nothing here.",
	}
	if w.Unseen > 0 {
		w.Presumed = append(w.Presumed, fmt.Sprintf("%s not in a later snapshot of the journal: the price is the planned one.", counted(w.Unseen, "node")))
	}
	if w.Lost > 0 {
		w.Presumed = append(w.Presumed, fmt.Sprintf("%s became no node and had to be made again: they are left out.", counted(w.Lost, "launch")))
	}
	if r.newest == nil {
		w.Presumed = append(w.Presumed, "No snapshot of the window is kept: what one decision about all pods would launch cannot be said.")
	}
	if w.Since.Before(w.Oldest) {
		w.Presumed = append(w.Presumed, "The journal begins at "+w.Oldest.UTC().Format(time.RFC3339)+": what was before that is not in the figures.")
	}
}
