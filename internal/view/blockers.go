package view

import (
	"cmp"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// nodesNamed is how many nodes of a blocker are named.
const nodesNamed = 20

// Blockers is what keeps nodes from being removed, by cause, the most expensive first.
type Blockers struct {
	Head
	// Held is what the nodes cost that something other than their use keeps, of Price for all nodes.
	// Less can be saved: their pods need room elsewhere.
	HeldHourly float64   `json:"heldHourlyDollars"`
	Price      Price     `json:"price"`
	Blockers   []Blocker `json:"blockers"`
}

// Blocker is nodes that are kept by the same cause.
type Blocker struct {
	Cause
	// Text is what the newest verdict says of the first of the nodes.
	Text  string `json:"text"`
	Nodes int    `json:"nodes"`
	Price Price  `json:"price"`
	// Due are those of the nodes that have to go: drifted, unhealthy or about to expire.
	Due int `json:"due"`
	// Until is when time alone ends it for the first of the nodes; When is what ends it otherwise.
	Until time.Time `json:"until,omitzero"`
	When  string    `json:"when,omitempty"`
	// InUse: the nodes are kept because their pods need them, which is no fault.
	InUse bool `json:"inUse"`
	// Names are some of the nodes.
	Names []string `json:"names"`
}

// BlockersOf returns what keeps nodes from being removed.
func BlockersOf(s *State) Blockers { return blockersOf(newReader(s)) }

func blockersOf(r *reader) Blockers {
	s, v := r.State, Blockers{Head: r.head("Blockers"), Blockers: []Blocker{}}
	at := map[Cause]int{}
	for i := range s.Snapshot.Nodes {
		n := &s.Snapshot.Nodes[i]
		if n.Claim == "" || !r.scope.has(n.Labels) {
			continue
		}
		v.Price.add(r, n)
		st := r.status(n)
		if st.Cause.Reason == "" || !r.scope.hasObject(st.Cause.Object) && !r.scope.hasObject(r.holds.Of(n).Object) {
			continue
		}
		k, ok := at[st.Cause]
		if !ok {
			k = len(v.Blockers)
			at[st.Cause] = k
			v.Blockers = append(v.Blockers, Blocker{Cause: st.Cause, Text: st.Text, Until: st.Until, When: st.When, InUse: inUse(st.Cause)})
		}
		v.Blockers[k].take(r, n, &st)
	}
	for i := range v.Blockers {
		if b := &v.Blockers[i]; !b.InUse {
			v.HeldHourly += b.Price.Hourly
		}
	}
	slices.SortStableFunc(v.Blockers, func(a, b Blocker) int {
		if a.InUse != b.InUse {
			return cmp.Compare(rank(a.InUse), rank(b.InUse))
		}
		return cmp.Or(cmp.Compare(b.Price.Hourly, a.Price.Hourly), cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Object, b.Object))
	})
	return v
}

// take takes in a node.
func (b *Blocker) take(r *reader, n *cluster.Node, st *Status) {
	b.Nodes++
	b.Price.add(r, n)
	if st.State == StateDue {
		b.Due++
	}
	if !st.Until.IsZero() && (b.Until.IsZero() || st.Until.Before(b.Until)) {
		b.Until = st.Until
	}
	if len(b.Names) < nodesNamed {
		b.Names = append(b.Names, n.Name)
	}
}

// inUse reports whether a node that is kept by the cause is needed where it is. Where its NodePool keeps it,
// by its policy or because it has a fixed number of nodes, that is not known.
func inUse(c Cause) bool {
	return c.Kind == "" && (c.Reason == verdict.Unconsolidatable || c.Reason == verdict.NoReplacement || c.Reason == verdict.HeldByBuffer)
}

func rank(last bool) int {
	if last {
		return 1
	}
	return 0
}
