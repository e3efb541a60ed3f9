package journal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
)

const (
	// awaitedMost and awaitedPodsMost bound for how many launches, and for how many of their pods, it is watched
	// where the pods go. What is launched beyond that stays unknown.
	awaitedMost, awaitedPodsMost = 1000, 20_000
	// awaitedFor is for how long a launch is watched at most.
	awaitedFor = time.Hour
)

// LaunchOutcome says where the pods of a launch went: of Pods that were planned for its node, There were seen on it.
// The others went elsewhere, are gone, or still waited when it was last looked, at At. Of a command for disruption, it says
// how many pods came anew on the nodes that were meant for those that it moved.
type LaunchOutcome struct {
	// Launch is the index in the plan, of the launch or the command.
	Launch int       `json:"launch"`
	Pods   int       `json:"pods"`
	There  int       `json:"there"`
	At     time.Time `json:"at"`
}

// landed says where the pods of a decision's launch went.
type landed struct {
	ID ID `json:"id"`
	LaunchOutcome
}

// awaited is a launch of which it is not yet known where its pods went.
type awaited struct {
	id      ID
	claim   string
	since   time.Time
	isThere bool // its NodeClaim was in a snapshot
	isKnown bool // it is known where its pods went
	LaunchOutcome
	// waiting is how many of its pods had no node in the newest snapshot.
	waiting int
}

// awaitedPod is a pod of such a launch.
type awaitedPod struct {
	of      *awaited
	isThere bool // it was seen on the launch's node
}

// awaiting watches in the snapshots of decisions where the pods of launches and commands go. Pods that are evicted have
// other names when they come back: those of nodes that are going are not among the pods of launches.
type awaiting struct {
	byClaim map[string]*awaited
	pods    map[cluster.PodRef]awaitedPod
	moves   map[string]*awaitedMoves // by the ID of the command
	moved   int                      // pods of all of moves
}

func newAwaiting() awaiting {
	return awaiting{byClaim: map[string]*awaited{}, pods: map[cluster.PodRef]awaitedPod{}, moves: map[string]*awaitedMoves{}}
}

// await begins to watch the launches of a decision for pending pods, and its commands.
func (l *awaiting) await(d *record.Decision, id ID) {
	l.awaitMoves(d, id)
	if len(d.Plan.Launches) == 0 {
		return
	}
	evicted := map[cluster.PodRef]bool{}
	for i := range d.Snapshot.Pending {
		if p := &d.Snapshot.Pending[i]; p.Running {
			evicted[p.PodRef] = true
		}
	}
	for i := range d.Plan.Launches {
		pods := d.Plan.Launches[i].Pods
		if i >= len(d.Claims) || d.Claims[i] == "" || len(l.byClaim) >= awaitedMost || len(l.pods)+len(pods) > awaitedPodsMost {
			continue
		}
		a := &awaited{id: id, claim: d.Claims[i], since: d.At(), LaunchOutcome: LaunchOutcome{Launch: i}}
		for _, ref := range pods {
			if !evicted[ref] {
				a.Pods++
				l.pods[ref] = awaitedPod{of: a}
			}
		}
		if a.Pods > 0 {
			l.byClaim[a.claim] = a
		}
	}
}

// check looks where the pods are in a snapshot of the whole cluster, and returns by NodeClaim the launches of which
// that is now known: all their pods have a node or are gone, the node is gone, or it was watched long enough.
func (l *awaiting) check(snap *cluster.Snapshot) (known []*awaited) {
	if len(l.byClaim) == 0 {
		return nil
	}
	for _, a := range l.byClaim {
		a.waiting = 0
	}
	for i := range snap.Pending {
		l.waits(snap.Pending[i].PodRef)
	}
	for i := range snap.Excluded {
		l.waits(snap.Excluded[i].PodRef)
	}
	seen := map[string]bool{}
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		a := l.byClaim[n.Claim]
		if a == nil {
			continue
		}
		seen[n.Claim], a.isThere = true, true
		if n.Initialized {
			l.arrived(n, a)
			a.isKnown = a.waiting == 0
		}
	}
	for claim, a := range l.byClaim {
		if a.isKnown || !seen[claim] && a.isThere || snap.At.Sub(a.since) > awaitedFor {
			known = append(known, a)
		}
	}
	slices.SortFunc(known, func(a, b *awaited) int { return strings.Compare(a.claim, b.claim) })
	return known
}

// waits notes that a pod has no node.
func (l *awaiting) waits(ref cluster.PodRef) {
	if p, ok := l.pods[ref]; ok && !p.isThere {
		p.of.waiting++
	}
}

// arrived notes which pods of a launch are on its node.
func (l *awaiting) arrived(n *cluster.Node, a *awaited) {
	for i := range n.Reschedulable {
		ref := n.Reschedulable[i].PodRef
		if p, ok := l.pods[ref]; ok && p.of == a && !p.isThere {
			l.pods[ref] = awaitedPod{a, true}
			a.There++
		}
	}
}

// forget ends the watch of a launch.
func (l *awaiting) forget(known []*awaited) {
	if len(known) == 0 {
		return
	}
	for _, a := range known {
		delete(l.byClaim, a.claim)
	}
	for ref, p := range l.pods {
		if l.byClaim[p.of.claim] != p.of {
			delete(l.pods, ref)
		}
	}
}

// landed takes in where the pods of launches went.
func (j *Journal) landed(snap *cluster.Snapshot) {
	known := j.awaiting.check(snap)
	for _, a := range known {
		a.At = snap.At
		j.lines.landed(a)
		j.keepLanded(a.id, &a.LaunchOutcome)
	}
	j.awaiting.forget(known)
	for _, m := range j.awaiting.checkMoves(snap) {
		j.keepLanded(m.id, &m.LaunchOutcome)
	}
}

func (j *Journal) keepLanded(id ID, o *LaunchOutcome) {
	if k := j.find(id); k != nil {
		k.head.Landed = append(k.head.Landed, *o)
	}
	j.toDisk((&line{Landed: &landed{id, *o}}).bytes())
}

// landed says of the node of a launch how many of the pods that were planned for it are on it.
func (t *timelines) landed(a *awaited) {
	x := &speaker{timelines: t, saying: saying{loop: record.Provisioning, at: a.At, until: a.At, times: 1, decision: a.id}}
	x.say(x.node(a.claim), fmt.Sprintf("%d of %s where planned", a.There, times(a.Pods, "pod")))
}
