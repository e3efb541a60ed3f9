package journal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// State is what a subject is now, by its objects.
type State struct {
	Kind, Namespace, Name, UID string
	Node, Claim, Pool          string
	// Now says what it does or waits for, in words that follow its name; Ends until when, or what ends that.
	Now, Ends string
	Facts     []string
	// Waiting are the pods of a workload that have no node.
	Waiting []cluster.PodRef
}

// Live says what there is of a subject now: nothing, if it does not exist.
type Live func(Subject) []State

// SetLive sets what says what subjects are now; nil: nothing does.
func (j *Journal) SetLive(live Live) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.live = live
}

// Explain returns what there is to say of the subject: what it is now, and what was decided about it.
// Nothing: it does not exist, and no decision mentions it.
func (j *Journal) Explain(s Subject) []Answer {
	j.mu.Lock()
	live := j.live
	j.mu.Unlock()
	var states []State
	if live != nil { // it has a lock of its own
		states = live(s)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	var seen []*cluster.Snapshot
	for _, snap := range j.seen {
		seen = append(seen, snap)
	}
	slices.SortFunc(seen, func(a, b *cluster.Snapshot) int { return b.At.Compare(a.At) })
	answers := j.lines.answers(s, seen)
	if s.Kind == KindType {
		return typeAnswer(s.Name, seen)
	}
	for i := range states {
		j.lines.addState(&answers, &states[i])
	}
	for i := range answers {
		if a := &answers[i]; live != nil && a.Now == "" && a.Kind != KindBuffer {
			a.Now = "does not exist any more"
		}
	}
	return answers
}

// addState adds what a subject is now to the answer about it.
func (t *timelines) addState(answers *[]Answer, s *State) {
	name := s.Name
	if s.Namespace != "" {
		name = s.Namespace + "/" + s.Name
	}
	i := slices.IndexFunc(*answers, func(a Answer) bool {
		return a.Kind == s.Kind && a.Name == name && (a.UID == "" || a.UID == s.UID)
	})
	if i < 0 {
		*answers = append(*answers, Answer{Kind: s.Kind, Name: name, UID: s.UID, Says: []Say{}})
		i = len(*answers) - 1
	}
	a := &(*answers)[i]
	a.Now, a.Ends = s.Now, s.Ends
	a.Node, a.Claim, a.Pool = cmp.Or(s.Node, a.Node), cmp.Or(s.Claim, a.Claim), cmp.Or(s.Pool, a.Pool)
	if len(a.Facts) == 0 || s.Kind == KindPool {
		a.Facts = s.Facts
	}
	if IsWorkload(s.Kind) {
		a.Facts = append(a.Facts, t.waiting(s.Waiting)...)
	}
	if s.Kind == KindPod && a.Ends == "" && s.Node == "" && len(a.Says) > 0 {
		a.Ends = a.Says[0].Ends
	}
}

// waiting says of pods that have no node what was last decided about them: a line for each answer.
func (t *timelines) waiting(pods []cluster.PodRef) []string {
	groups, order := map[string][]string{}, []string(nil)
	for _, ref := range pods {
		var last *statement
		for _, l := range t.byName[ref.Name] {
			if l.identity == (identity{KindPod, ref.Namespace, ref.Name, ref.UID}) && len(l.statements) > 0 {
				last = l.statements[len(l.statements)-1]
			}
		}
		if last == nil {
			continue
		}
		why := last.what
		if lines := last.lines(); last.why.Reason != verdict.OK && len(lines) > 0 {
			why += ": " + strings.Join(lines, "; ") + "; until " + last.end()
		}
		if groups[why] == nil {
			order = append(order, why)
		}
		groups[why] = append(groups[why], ref.String())
	}
	slices.SortFunc(order, func(a, b string) int { return cmp.Or(len(groups[b])-len(groups[a]), cmp.Compare(a, b)) })
	var lines []string
	for _, why := range order {
		names := groups[why]
		lines = append(lines, fmt.Sprintf("%s (%s): %s", times(len(names), "pod"), strings.Join(names[:min(podsNamed, len(names))], ", "), why))
	}
	return lines
}

// typeAnswer says of an instance type which pools may launch it, for how much, and what is short.
func typeAnswer(name string, seen []*cluster.Snapshot) []Answer {
	if len(seen) == 0 {
		return nil
	}
	a := Answer{Kind: KindType, Name: name, Says: []Say{}}
	for i := range seen[0].Pools {
		pool := &seen[0].Pools[i]
		for _, t := range pool.Types {
			if t.Name != name {
				continue
			}
			if a.Facts == nil {
				a.Facts = []string{"has " + amounts(t.Allocatable()) + " for pods"}
			}
			for k := range t.Offerings {
				a.Facts = append(a.Facts, fmt.Sprintf("pool %s: %s", pool.Name, offering(&t.Offerings[k])))
			}
		}
	}
	count := 0
	for i := range seen[0].Nodes {
		if seen[0].Nodes[i].Labels["node.kubernetes.io/instance-type"] == name {
			count++
		}
	}
	if a.Facts == nil && count == 0 {
		return nil
	}
	a.Now = times(count, "node")
	if a.Facts == nil {
		a.Now += ", and no NodePool launches it"
		a.Ends = "the requirements of a NodePool and its node class allow it"
	}
	return []Answer{a}
}

func offering(o *catalog.Offering) string {
	text := fmt.Sprintf("%s in %s", o.CapacityType, o.Zone)
	if o.Priced {
		text += fmt.Sprintf(" at $%.4f per hour", o.PriceHourly)
	} else {
		text += ", price unknown"
	}
	switch {
	case !o.Available:
		text += ", not available now, until " + verdict.NoOffering.Ends()
	case o.Reservation != "":
		text += fmt.Sprintf(", reservation %s covers %d more", o.Reservation, o.Left)
	}
	return text
}
