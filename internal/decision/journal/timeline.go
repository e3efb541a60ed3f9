package journal

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
)

const (
	// statementsMax bounds how many statements are remembered, and statementBytes is what of the memory
	// one is counted as.
	statementsMax, statementBytes = 60_000, 256
	// recent is how many of a subject's last statements may be said again.
	recent = 16
)

// Refused is a pod that nothing can take, for one reason: since when, until when as far
// as is known, and how many decisions said so.
type Refused struct {
	Namespace string         `json:"namespace"`
	Name      string         `json:"name"`
	UID       string         `json:"uid"`
	Reason    verdict.Reason `json:"reason"`
	Why       string         `json:"why"`
	First     time.Time      `json:"first"`
	Last      time.Time      `json:"last"`
	Times     int64          `json:"times"`
}

// Pod returns whose refusal it is.
func (r *Refused) Pod() cluster.PodRef {
	return cluster.PodRef{Namespace: r.Namespace, Name: r.Name, UID: r.UID}
}

// identity is what statements are about. A node that has no Node yet has the name of its NodeClaim;
// kindCommand is what is launched for a command, by the command's id.
type identity struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

const kindCommand = "command"

// timeline is what was said about one subject, the oldest first.
type timeline struct {
	identity
	facts []string
	// pool is that of a node.
	pool       string
	statements []*statement
}

// statement is one thing that was decided about a subject, for as long as it was said again and again.
type statement struct {
	of          *timeline
	loop        record.Loop
	first, last time.Time
	times       int64
	// decision is the last decision that was kept and said it; none: none was.
	decision ID
	what     string
	details  []string
	// why is what the statement is made from; yes: it is no refusal.
	why verdict.Verdict
	// ends says until when a refusal holds, if it was read from a file.
	ends string
	key  uint64
	// unwritten: the disk does not have it as it is.
	unwritten bool
}

// asker is who decides about the same thing again and again: a loop, or of the static loops one pool.
type asker struct {
	loop record.Loop
	pool string
}

func askerOf(d *record.Decision) asker { return asker{d.Loop, d.Scaling.Pool} }

// timelines are those of all subjects, within a bound. A statement is kept once, however often it
// is said; amounts aside.
type timelines struct {
	most   int
	hasher hasher
	byName map[string][]*timeline
	count  int
	// current are the statements of the newest decision of each asker.
	current map[asker][]*statement
	// staying are the nodes that stayed by the newest decision that said so, in its order.
	staying []*timeline
	// changed are the statements that began or ended and are to be written to disk.
	changed []*statement
}

func newTimelines(most int) *timelines {
	return &timelines{most: most, hasher: hasher{seed: maphash.MakeSeed()}, byName: map[string][]*timeline{}, current: map[asker][]*statement{}}
}

// find returns the timeline of a subject; nil: there is none.
func (t *timelines) find(who identity) *timeline {
	for _, l := range t.byName[who.Name] {
		if l.identity == who {
			return l
		}
	}
	return nil
}

// of returns the timeline of a subject; isNew: it has just begun.
func (t *timelines) of(who identity) (line *timeline, isNew bool) {
	if line = t.find(who); line != nil {
		return line, false
	}
	line = &timeline{identity: who}
	t.byName[who.Name] = append(t.byName[who.Name], line)
	return line, true
}

// saying is a statement to be made.
type saying struct {
	loop     record.Loop
	at       time.Time
	times    int64
	until    time.Time
	decision ID
	key      uint64
	// what is said, in words, and its details. If isRefusal, what is a format for the reason of why.
	what      string
	details   []string
	isRefusal bool
	why       verdict.Verdict
	// stays are the hashes of the reasons for which nodes stay; nil: they are not known yet.
	stays []uint64
}

// text returns what is said about a subject, in words, and its details.
func (s *saying) text(about *timeline) (what string, details []string) {
	if !s.isRefusal {
		return s.what, s.details
	}
	return fmt.Sprintf(s.what, s.why.Reason), (&statement{of: about, why: s.why}).lines()
}

// said finds the statement that is said again: one of those that the last decision of its loop that
// said anything about the subject made. nil: it is new.
func (l *timeline) said(s *saying) *statement {
	from := max(0, len(l.statements)-recent)
	var newest time.Time
	for _, e := range l.statements[from:] {
		if e.loop == s.loop && e.last.Before(s.at) && e.last.After(newest) {
			newest = e.last
		}
	}
	for _, e := range l.statements[from:] {
		if e.loop == s.loop && !e.last.Before(newest) && (e.key == s.key || e.isRecalled() && e.says(s)) {
			return e
		}
	}
	return nil
}

// isRecalled reports whether the statement was read from a file: it has no key.
func (e *statement) isRecalled() bool { return e.key == 0 }

// says reports whether a statement that was read from a file is the one to be made. If so, it is as if this
// process had made it.
func (e *statement) says(s *saying) bool {
	what, details := s.text(e.of)
	if withoutDigits(what) != withoutDigits(e.what) || withoutDigits(strings.Join(details, "\n")) != withoutDigits(strings.Join(e.details, "\n")) {
		return false
	}
	e.key, e.details, e.ends = s.key, nil, ""
	return true
}

// withoutDigits returns a text without amounts.
func withoutDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, s)
}

// say notes a statement.
func (t *timelines) say(l *timeline, s *saying) *statement {
	e := l.said(s)
	switch {
	case e == nil:
		for _, old := range l.statements[max(0, len(l.statements)-recent):] {
			if old.loop == s.loop && old.unwritten {
				t.changed = append(t.changed, old) // as it ended
			}
		}
		e = &statement{of: l, loop: s.loop, first: s.at, key: s.key}
		l.statements = append(l.statements, e)
		t.count++
		t.changed = append(t.changed, e)
		e.what, _ = s.text(l)
	case e.last.Equal(s.until):
		return e // said twice by one decision
	default:
		e.unwritten = true
	}
	e.last, e.times = s.until, e.times+s.times
	if !s.decision.IsZero() {
		e.decision = s.decision
	}
	return e
}

// again says what the newest decision of an asker said once more.
func (t *timelines) again(who asker, at time.Time) {
	for _, e := range t.current[who] {
		e.last, e.times, e.unwritten = at, e.times+1, true
	}
}

// written returns the statements that are to be written to disk now.
func (t *timelines) written() []*statement {
	list := t.changed
	t.changed = nil
	return list
}

// open returns the statements that may still be said again, and of these only those that are not
// written as they are, if asked for.
func (t *timelines) open(unwrittenOnly bool) (list []*statement) {
	for _, e := range t.all() {
		last := e.of.statements[len(e.of.statements)-1]
		if e.unwritten || !unwrittenOnly && e == last {
			list = append(list, e)
		}
	}
	return list
}

// all returns the statements in the order in which they were first made.
func (t *timelines) all() []*statement {
	list := make([]*statement, 0, t.count)
	for _, lines := range t.byName {
		for _, l := range lines {
			list = append(list, l.statements...)
		}
	}
	slices.SortFunc(list, func(a, b *statement) int {
		return cmp.Or(a.first.Compare(b.first), cmp.Compare(a.of.Kind, b.of.Kind), cmp.Compare(a.of.Namespace, b.of.Namespace),
			cmp.Compare(a.of.Name, b.of.Name), cmp.Compare(a.of.UID, b.of.UID), cmp.Compare(a.loop, b.loop), cmp.Compare(a.what, b.what))
	})
	return list
}

// prune forgets an eighth of the statements when there are too many, so that it is rarely done: those
// that others have followed first, then those said last longest ago.
func (t *timelines) prune() {
	if t.count <= t.most {
		return
	}
	list := t.all()
	isOver := func(e *statement) int {
		if e.of.statements[len(e.of.statements)-1] != e {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b *statement) int { return cmp.Or(isOver(a)-isOver(b), a.last.Compare(b.last)) })
	going := map[*statement]bool{}
	for _, e := range list[:len(list)-t.most+t.most/8] {
		going[e] = true
	}
	for name, lines := range t.byName {
		for _, l := range lines {
			l.statements = slices.DeleteFunc(l.statements, func(e *statement) bool { return going[e] })
		}
		if lines = slices.DeleteFunc(lines, func(l *timeline) bool { return len(l.statements) == 0 }); len(lines) == 0 {
			delete(t.byName, name)
		} else {
			t.byName[name] = lines
		}
	}
	for who, list := range t.current {
		t.current[who] = slices.DeleteFunc(list, func(e *statement) bool { return going[e] })
	}
	t.staying = nil // some may be gone
	t.changed = slices.DeleteFunc(t.changed, func(e *statement) bool { return going[e] })
	t.count -= len(going)
}

// refusals returns which pods were refused.
func (t *timelines) refusals() []Refused {
	all := []Refused{}
	for _, e := range t.all() {
		if e.of.Kind == KindPod && e.why.Reason != verdict.OK {
			all = append(all, Refused{
				Namespace: e.of.Namespace, Name: e.of.Name, UID: e.of.UID, Reason: e.why.Reason,
				Why: e.text(), First: e.first, Last: e.last, Times: e.times,
			})
		}
	}
	return all
}

// text returns why a pod was refused.
func (e *statement) text() string {
	if e.details != nil {
		return strings.Join(e.details, "; ")
	}
	return e.why.String()
}

// lines are the details of the statement.
func (e *statement) lines() []string {
	switch {
	case e.details != nil || e.why.IsYes():
		return e.details
	case e.of.Kind == KindPod || e.of.Kind == KindBuffer:
		return misses(&e.why)
	default:
		return []string{e.why.About("").String()}
	}
}

// misses returns why a pod was refused: a line for each pool where that is all there is
// to say.
func misses(why *verdict.Verdict) []string {
	if len(why.Causes) < 2 || why.Subject != "" || why.Detail != "" {
		return []string{why.String()}
	}
	lines := make([]string, len(why.Causes))
	for i := range why.Causes {
		lines[i] = why.Causes[i].String()
	}
	return lines
}

// end says until when the statement holds or what would change it; empty: it is no refusal.
func (e *statement) end() string {
	if e.ends != "" {
		return e.ends
	}
	return e.why.Ends()
}
