package journal

import (
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
)

// movedGrace is for how long after the nodes of a command have gone it is awaited that the controllers of its pods
// have made them anew.
const movedGrace = time.Minute

// awaitedMoves is a command of which it is not yet known where the pods went that it moved. They come back under other
// names, so they are counted by what made them.
type awaitedMoves struct {
	id    ID
	since time.Time
	// going are the nodes that it removes; isThere: one of them is in the newest snapshot.
	going   []goingNode
	isThere bool
	// onto are nodes that were there and take pods.
	onto map[string]bool
	// planned is how many pods it moves, by owner.
	planned map[string]int
	goneAt  time.Time // zero: its nodes were there in the newest snapshot
	LaunchOutcome
}

// goingNode is a node that a command removes, by its NodeClaim. at is where it was when it was last looked for.
type goingNode struct {
	claim string
	at    int
}

// ownerOf names what made a pod, by its name: NAME-HASH-RANDOM is of the ReplicaSet NAME-HASH, NAME-0 of the
// StatefulSet NAME.
func ownerOf(ref cluster.PodRef) string {
	name := ref.Name
	if at := strings.LastIndexByte(name, '-'); at > 0 {
		name = name[:at]
	}
	return ref.Namespace + "/" + name
}

// awaitMoves begins to watch the commands of a decision that are begun, and ends the watch of those that are undone.
func (l *awaiting) awaitMoves(d *record.Decision, id ID) {
	for i := range d.Disruption.Undos {
		l.endMoves(d.Disruption.Undos[i].Command)
	}
	for i := range d.Disruption.Commands {
		c := &d.Disruption.Commands[i]
		if c.ID == "" || len(l.moves) >= awaitedMost || l.moved+c.Evictions > awaitedPodsMost {
			continue
		}
		m := movesOf(c, d.Snapshot)
		if m.Launch, m.id = i, id; m.Pods > 0 {
			l.endMoves(c.ID)
			l.moves[c.ID], l.moved = m, l.moved+m.Pods
		}
	}
}

func movesOf(c *plan.Command, snap *cluster.Snapshot) *awaitedMoves {
	m := &awaitedMoves{since: snap.At, onto: map[string]bool{}, planned: map[string]int{}}
	removed := map[string]bool{}
	for i := range c.Remove {
		removed[c.Remove[i].Claim] = true
	}
	again := map[cluster.PodRef]bool{} // pods that something makes anew
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		if !removed[n.Claim] {
			continue
		}
		m.going = append(m.going, goingNode{n.Claim, i})
		for k := range n.Reschedulable {
			if r := &n.Reschedulable[k]; r.Controller != "" && r.Buffer == "" {
				again[r.PodRef] = true
			}
		}
	}
	count := func(ref cluster.PodRef) {
		if again[ref] {
			m.planned[ownerOf(ref)]++
			m.Pods++
		}
	}
	for i := range c.Launch {
		for _, ref := range c.Launch[i].Pods {
			count(ref)
		}
	}
	for i := range c.Moves {
		m.onto[c.Moves[i].Node] = true
		count(c.Moves[i].Pod)
	}
	return m
}

func (l *awaiting) endMoves(command string) {
	if m := l.moves[command]; m != nil {
		l.moved -= m.Pods
		delete(l.moves, command)
	}
}

// checkMoves looks where the pods are in a snapshot of the whole cluster, and returns the commands of which that is
// now known: their nodes have gone, and none of their pods has no node. Those whose nodes do not go are forgotten.
func (l *awaiting) checkMoves(snap *cluster.Snapshot) (known []*awaitedMoves) {
	if len(l.moves) == 0 {
		return nil
	}
	waiting := map[string]bool{}
	for i := range snap.Pending {
		if p := &snap.Pending[i]; !p.Running {
			waiting[ownerOf(p.PodRef)] = true
		}
	}
	for i := range snap.Excluded {
		waiting[ownerOf(snap.Excluded[i].PodRef)] = true
	}
	l.findGoing(snap)
	var gone []string
	for command, m := range l.moves {
		switch {
		case !m.isThere:
			gone = append(gone, command)
			continue
		case snap.At.Sub(m.since) > awaitedFor:
			l.endMoves(command)
		}
		m.goneAt = time.Time{} // what came already is counted when its nodes have gone
	}
	slices.Sort(gone)
	nodes := l.indexOf(snap, gone)
	for _, command := range gone {
		m := l.moves[command]
		m.count(nodes, command, snap.At)
		switch {
		case m.isKnown(waiting, snap.At):
			m.At = snap.At
			known = append(known, m)
			l.endMoves(command)
		case snap.At.Sub(m.since) > awaitedFor:
			l.endMoves(command)
		}
	}
	return known
}

// findGoing looks for the nodes that commands remove. Nearly all are where they were in the snapshot before.
func (l *awaiting) findGoing(snap *cluster.Snapshot) {
	sought := map[string][]*awaitedMoves{}
	for _, m := range l.moves {
		m.isThere = slices.ContainsFunc(m.going, func(g goingNode) bool {
			return g.at < len(snap.Nodes) && snap.Nodes[g.at].Claim == g.claim
		})
		for i := range m.going {
			if !m.isThere {
				sought[m.going[i].claim] = append(sought[m.going[i].claim], m)
			}
		}
	}
	if len(sought) == 0 {
		return
	}
	for i := range snap.Nodes {
		for _, m := range sought[snap.Nodes[i].Claim] {
			m.isThere = true
			m.going[slices.IndexFunc(m.going, func(g goingNode) bool { return g.claim == snap.Nodes[i].Claim })].at = i
		}
	}
}

// nodeIndex finds those nodes of a snapshot that may have taken pods of commands.
type nodeIndex struct {
	byName map[string]*cluster.Node
	// replacing are those that were launched for a command, by its ID.
	replacing map[string][]*cluster.Node
}

// indexOf finds what may have taken the pods of commands whose nodes are gone.
func (l *awaiting) indexOf(snap *cluster.Snapshot, gone []string) *nodeIndex {
	x := &nodeIndex{byName: map[string]*cluster.Node{}, replacing: map[string][]*cluster.Node{}}
	if len(gone) == 0 {
		return x
	}
	for _, command := range gone {
		for name := range l.moves[command].onto {
			x.byName[name] = nil
		}
	}
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		if _, isAsked := x.byName[n.Name]; isAsked {
			x.byName[n.Name] = n
		}
		if n.Replaces != "" {
			x.replacing[n.Replaces] = append(x.replacing[n.Replaces], n)
		}
	}
	return x
}

// count counts the pods that came after the command was begun, on the nodes that it meant them for.
func (m *awaitedMoves) count(nodes *nodeIndex, command string, at time.Time) {
	m.There = 0
	if m.goneAt.IsZero() {
		m.goneAt = at
	}
	there := map[string]int{}
	meant := slices.Clone(nodes.replacing[command])
	for name := range m.onto {
		if n := nodes.byName[name]; n != nil && n.Replaces != command {
			meant = append(meant, n)
		}
	}
	for _, n := range meant {
		for k := range n.Reschedulable {
			if r := &n.Reschedulable[k]; r.Created.After(m.since) {
				there[ownerOf(r.PodRef)]++
			}
		}
	}
	for owner, planned := range m.planned {
		m.There += min(planned, there[owner])
	}
}

func (m *awaitedMoves) isKnown(waiting map[string]bool, now time.Time) bool {
	if m.goneAt.IsZero() {
		return false
	}
	for owner := range m.planned {
		if waiting[owner] {
			return now.Sub(m.goneAt) > awaitedFor
		}
	}
	return m.There == m.Pods || now.Sub(m.goneAt) >= movedGrace
}
