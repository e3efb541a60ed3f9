package disrupt

import (
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// findCommands finds the commands in progress, sorted by ID, and takes their nodes.
func (w *work) findCommands() {
	byID := map[string]*command{}
	find := func(n *cluster.Node) *command {
		f := byID[n.Step]
		if f == nil {
			f = &command{id: n.Step, reason: n.DisruptionReason, removes: n.StepRemoves, launches: n.StepLaunches, terminatesFirst: n.StepTerminatesFirst}
			byID[n.Step] = f
			w.commands = append(w.commands, f)
		}
		return f
	}
	for i := range w.snap.Nodes {
		n := &w.snap.Nodes[i]
		if n.DisruptionReason == "" || n.Step == "" || n.Claim == "" {
			continue
		}
		f := find(n)
		if n.DisruptedSince.After(f.since) {
			f.since = n.DisruptedSince
		}
		if n.Deleting {
			f.going++
			if !n.Empty {
				f.draining++
			}
			continue
		}
		w.taken[i] = true
		f.nodes = append(f.nodes, i)
	}
	for i := range w.snap.Nodes {
		if n := &w.snap.Nodes[i]; !n.Deleting && byID[n.Replaces] != nil && n.Replaces != "" {
			f := byID[n.Replaces]
			f.replacements = append(f.replacements, i)
		}
	}
	slices.SortFunc(w.commands, func(a, b *command) int { return strings.Compare(a.id, b.id) })
}

// arrived reports whether all replacements of a command are initialized.
func (w *work) arrived(f *command) bool {
	for _, i := range f.replacements {
		if !w.snap.Nodes[i].Initialized {
			return false
		}
	}
	return len(f.replacements) >= f.launches
}

// nodesOfCommands returns the nodes of those commands in progress.
func (w *work) nodesOfCommands(which func(*command) bool) (nodes []int) {
	for _, f := range w.commands {
		if which(f) {
			nodes = append(nodes, f.nodes...)
		}
	}
	return nodes
}

// replaces reports whether the node is the replacement of a command whose nodes still have pods.
func (w *work) replaces(n *cluster.Node) bool {
	if n.Replaces == "" {
		return false
	}
	for _, f := range w.commands {
		if f.id == n.Replaces {
			return len(f.nodes)+f.draining > 0
		}
	}
	return false
}
