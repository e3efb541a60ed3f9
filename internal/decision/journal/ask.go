package journal

import (
	"cmp"
	"errors"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// Explain returns what the journal knows of the subject: nothing, when no decision
// mentions it.
func (f *File) Explain(s Subject) ([]Answer, error) {
	if err := f.fill(); err != nil {
		return nil, err
	}
	var seen []*cluster.Snapshot
	if s.Kind != KindPod && s.Kind != KindBuffer && s.Kind != KindPool {
		seen = f.seen()
	}
	return f.lines.answers(s, seen), nil
}

// List returns what is known at a glance of the decisions, and of the pods that were refused.
func (f *File) List() (Listing, error) {
	if err := f.fill(); err != nil {
		return Listing{}, err
	}
	l := Listing{Decisions: make([]Head, len(f.Decisions)), Refusals: f.lines.refusals()}
	for i := range f.Decisions {
		l.Decisions[i] = f.Decisions[i].Head
	}
	return l, nil
}

// fill makes the timelines of a file that has none from its decisions.
func (f *File) fill() error {
	if f.filled {
		return nil
	}
	f.filled = true
	if f.lines.count > 0 {
		return nil
	}
	for i := range f.Decisions {
		e := &f.Decisions[i]
		d, err := e.Decision()
		if errors.Is(err, ErrNoSnapshot) {
			err = nil
		}
		if err != nil {
			return err
		}
		until := e.At
		if e.Again > 0 {
			until = e.Until
		}
		f.lines.decided(d, saying{loop: d.Loop, at: e.At, until: until, times: 1 + e.Again, decision: e.ID})
	}
	for i := range f.oldRefusals {
		f.lines.remembered(&f.oldRefusals[i])
	}
	return nil
}

// seenMost is in how many of the newest decisions it is looked how a node was.
const seenMost = 2

// seen returns the newest snapshots that can be read, the newest first.
func (f *File) seen() (list []*cluster.Snapshot) {
	for i := len(f.Decisions) - 1; i >= 0 && len(list) < seenMost; i-- {
		if d, err := f.Decisions[i].Decision(); err == nil {
			list = append(list, d.Snapshot)
		}
	}
	return list
}

// answers returns what was said about a subject, each answer with its newest statement first. seen are
// snapshots that say how a node is, the newest first.
func (t *timelines) answers(s Subject, seen []*cluster.Snapshot) []Answer {
	var all []Answer
	for _, l := range t.byName[s.Name] {
		isAsked := s.Kind == l.Kind || s.Kind == "" && (l.Kind == KindPod || l.Kind == KindBuffer)
		if isAsked && l.Kind != KindNode && (s.Namespace == "" || s.Namespace == l.Namespace) {
			name := l.Name
			if l.Namespace != "" {
				name = l.Namespace + "/" + l.Name
			}
			all = append(all, Answer{Kind: l.Kind, Name: name, UID: l.UID, Facts: l.facts, Says: says(l.statements)})
		}
	}
	if s.Kind == "" || s.Kind == KindNode || s.Kind == KindClaim {
		if a, ok := t.nodeAnswer(s, seen); ok {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b Answer) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), newest(&b).Compare(newest(&a)))
	})
	return all
}

// nodeAnswer returns the answer about a node: there is one for its own name and its NodeClaim's.
func (t *timelines) nodeAnswer(s Subject, seen []*cluster.Snapshot) (Answer, bool) {
	a := Answer{Kind: cmp.Or(s.Kind, KindNode), Name: s.Name}
	names := []string{s.Name}
	var found []*statement
	if n := nodeIn(seen, s.Name); n != nil {
		a.Node, a.Claim, a.Pool, a.Facts = n.Name, n.Claim, n.Pool, facts(n)
		names = namesOf(seen, n)
		if n.Replaces != "" {
			found = append(found, t.about(kindCommand, n.Replaces)...)
		}
	}
	for _, name := range names {
		for _, l := range t.byName[name] {
			if l.Kind == KindNode {
				found, a.Pool = append(found, l.statements...), cmp.Or(a.Pool, l.pool)
			}
		}
	}
	a.Says = says(found)
	return a, len(found) > 0 || a.Node != ""
}

// namesOf returns the names that a node has in snapshots, and its claim's. A claim that outlives its Node is what the newest
// snapshots have of the node.
func namesOf(seen []*cluster.Snapshot, n *cluster.Node) []string {
	names := []string{n.Name}
	if n.Claim == "" {
		return names
	}
	names = append(names, n.Claim)
	for _, snap := range seen {
		for i := range snap.Nodes {
			if snap.Nodes[i].Claim == n.Claim {
				names = append(names, snap.Nodes[i].Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (t *timelines) about(kind, name string) []*statement {
	for _, l := range t.byName[name] {
		if l.Kind == kind {
			return l.statements
		}
	}
	return nil
}

// nodeIn returns the newest of what snapshots have of a node, by its name or its claim's; nil: nothing.
func nodeIn(seen []*cluster.Snapshot, name string) *cluster.Node {
	for _, snap := range seen {
		for i := range snap.Nodes {
			if n := &snap.Nodes[i]; n.Name == name || n.Claim == name {
				return n
			}
		}
	}
	return nil
}

// says returns statements as answers have them, the newest first.
func says(list []*statement) []Say {
	out := make([]Say, 0, len(list))
	for _, e := range list {
		out = append(out, Say{First: e.first, Last: e.last, Times: e.times, Decision: e.decision, Loop: e.loop, What: e.what, Details: e.lines(), Ends: e.end()})
	}
	slices.SortStableFunc(out, func(p, q Say) int {
		return cmp.Or(q.Last.Compare(p.Last), cmp.Compare(q.Decision.Number, p.Decision.Number))
	})
	return out
}
