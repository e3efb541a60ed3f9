package world

import (
	"container/heap"
	"fmt"
	"slices"
	"time"
)

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	if !e[i].at.Equal(e[j].at) {
		return e[i].at.Before(e[j].at)
	}
	return e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	old[len(old)-1] = event{}
	*e = old[:len(old)-1]
	return last
}

// next makes the next event happen.
func (w *World) next() {
	e := heap.Pop(&w.events).(event)
	if e.to != nil && e.to.stopped.After(e.at) {
		e.at = e.to.stopped
		heap.Push(&w.events, e)
		return
	}
	if e.at.After(w.at) {
		w.at = e.at
	}
	w.done++
	e.what()
	for _, p := range w.processes() {
		p.runTriggered()
	}
}

// elapse has time go by while a process waits for an answer: it is reported what happens, but its loops
// and controllers, and those of another, do nothing until then.
func (w *World) elapse(pause time.Duration) {
	until := w.at.Add(pause)
	var waiting []event
	for w.said == "" && len(w.events) > 0 && !w.events[0].at.After(until) {
		if e := w.events[0]; e.to != nil && !e.report {
			waiting = append(waiting, heap.Pop(&w.events).(event))
			continue
		}
		w.next()
	}
	w.at = until
	for _, e := range waiting {
		if !e.to.dead {
			heap.Push(&w.events, e)
		}
	}
}

// processes returns those that live.
func (w *World) processes() (all []*process) {
	for _, p := range []*process{w.former, w.process} {
		if p != nil && !p.dead {
			all = append(all, p)
		}
	}
	return all
}

// after makes something happen after a pause.
func (w *World) after(pause time.Duration, what func()) {
	w.afterTo(nil, pause, what)
}

func (w *World) afterTo(p *process, pause time.Duration, what func()) {
	w.push(event{to: p, what: what}, pause)
}

func (w *World) push(e event, pause time.Duration) {
	w.seq++
	e.at, e.seq = w.at.Add(pause), w.seq
	heap.Push(&w.events, e)
}

// forget drops what was to happen to a process.
func (w *World) forget(p *process) {
	w.events = slices.DeleteFunc(w.events, func(e event) bool { return e.to == p })
	heap.Init(&w.events)
}

// every makes something happen again and again.
func (w *World) every(pause time.Duration, what func()) {
	w.after(pause, func() {
		what()
		w.every(pause, what)
	})
}

// between returns a random duration.
func (w *World) between(least, most time.Duration) time.Duration {
	if most <= least {
		return least
	}
	return least + time.Duration(w.rand.Int64N(int64(most-least)))
}

// chance reports whether something of that probability happens.
func (w *World) chance(p float64) bool { return w.rand.Float64() < p }

// pick returns one of several.
func pick[T any](w *World, of []T) T { return of[w.rand.IntN(len(of))] }

// note writes a line into the journal.
func (w *World) note(format string, args ...any) {
	w.line = fmt.Appendf(w.line[:0], "%12.3f ", w.at.Sub(start).Seconds())
	w.line = fmt.Appendf(w.line, format, args...)
	w.line = append(w.line, '\n')
	_, _ = w.sum.Write(w.line) // never fails
	if w.opts.Journal != nil {
		_, _ = w.opts.Journal.Write(w.line) // a journal that cannot be written is not worth a run
	}
}

// count counts something that happened.
func (w *World) count(what string) { w.Stats[what]++ }

// fail takes note of a violation, which ends the run after this event.
func (w *World) fail(format string, args ...any) {
	if w.said != "" {
		return
	}
	w.said = fmt.Sprintf("%s after %s: ", w.at.Format("15:04:05.000"), w.at.Sub(start).Round(time.Millisecond)) + fmt.Sprintf(format, args...)
	w.note("VIOLATION %s", w.said)
}
