package provisioning

import (
	"strings"
	"sync"
	"time"
)

// recheckEvery is how often pods that are still pending are looked at again when nothing
// happened.
const recheckEvery = 10 * time.Second

// Between decisions before a window ends are at least earlyEvery, the window's age divided by earlyShare, and
// earlyLoad times as long as the last one took.
const (
	earlyEvery = 100 * time.Millisecond
	earlyShare = 16
	earlyLoad  = 4
)

// podPrefix is how the ids of triggers begin that say that a pod asks for a node.
const podPrefix = "pod/"

// batch gathers what happens close together, so that one plan answers all of it.
type batch struct {
	idle, longest time.Duration
	// shortIdle is after how long without a trigger a window with pods may end, if no more are known to
	// come; 0: only after idle.
	shortIdle time.Duration
	// patience is for how long after that another pod makes its own window patient.
	patience time.Duration
	// recheck is how often pods that are still pending are looked at again when nothing happened.
	recheck  time.Duration
	now      func() time.Time
	triggers chan struct{}

	mu   sync.Mutex      // protects everything below
	seen map[string]bool // since the last window
	// opened is when the window's first trigger came, zero while none has; last when its last.
	opened, last time.Time
	// closed is when the last window closed.
	closed time.Time
	// hasPods: a pod was among the triggers. isNew: one was since the last early decision.
	hasPods, isNew bool
	// guessed is when a window last ended because it seemed complete, or a patient one ended. patient: a pod came soon
	// after that.
	guessed time.Time
	patient bool
	// earlyAt is the earliest time of the next early decision, and completeAt that of the next question whether the
	// window is complete.
	earlyAt, completeAt time.Time
}

func newBatch(idle, longest time.Duration, now func() time.Time) *batch {
	return &batch{idle: idle, longest: longest, recheck: recheckEvery, now: now, triggers: make(chan struct{}, 1), seen: map[string]bool{}, closed: now()}
}

// trigger opens a window or keeps it open, and wakes the loop at the first trigger and at the first pod since the last
// decision. What was seen in this window already does nothing.
func (b *batch) trigger(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen[id] {
		return
	}
	b.seen[id] = true
	b.last = b.now()
	b.completeAt = b.last.Add(b.shortIdle)
	isFirst := b.opened.IsZero()
	if isFirst {
		b.opened = b.last
	}
	if strings.HasPrefix(id, podPrefix) {
		b.patient = b.patient || !b.guessed.IsZero() && b.last.Sub(b.guessed) < b.patience
		isFirst = isFirst || !b.isNew
		b.hasPods, b.isNew = true, true
	}
	if isFirst { // there is something to do earlier than the loop knows
		select {
		case b.triggers <- struct{}{}:
		default:
		}
	}
}

// due is what it is time for.
type due int

const (
	nothing  due = iota
	early        // for a decision before the window ends
	complete     // for the question whether the window is complete, since nothing new has come for a while
	end          // for the end of the window
)

// next returns what it is time for; if for nothing, how long until it is.
func (b *batch) next() (what due, pause time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	what, at := b.upcoming()
	if pause = at.Sub(now); pause > 0 {
		return nothing, pause
	}
	switch what {
	case complete:
		b.completeAt = now.Add(b.shortIdle)
	case early:
		b.isNew = false
	default:
	}
	return what, 0
}

// wait returns how long it is until it is time for something.
func (b *batch) wait() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, at := b.upcoming()
	return at.Sub(b.now())
}

// upcoming returns what there is to do next, and when. A window ends when nothing new has come for the
// idle time, or after the longest time since its first trigger; without a window it is when to look
// again anyway.
func (b *batch) upcoming() (what due, at time.Time) {
	if b.opened.IsZero() {
		return end, b.closed.Add(b.recheck)
	}
	what, at = end, b.last.Add(b.idle)
	if most := b.opened.Add(b.longest); most.Before(at) {
		at = most
	}
	if b.shortIdle == 0 || !b.hasPods {
		return what, at
	}
	if b.completeAt.Before(at) {
		what, at = complete, b.completeAt
	}
	if b.isNew && b.earlyAt.Before(at) {
		what, at = early, b.earlyAt
	}
	return what, at
}

// decidedEarly says that an early decision is made, which took so long.
func (b *batch) decidedEarly(took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	pause := max(earlyEvery, earlyLoad*took)
	if !b.opened.IsZero() {
		pause = max(pause, now.Sub(b.opened)/earlyShare)
	}
	b.earlyAt = now.Add(pause)
}

// end closes the window, and returns when it was opened. What comes from now on is for the next.
// seemsComplete: it ends for no other reason.
func (b *batch) end(seemsComplete bool) (opened time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.seen)
	opened, b.closed = b.opened, b.now()
	if opened.IsZero() {
		opened = b.closed
	}
	if b.hasPods {
		b.guessed = time.Time{}
	}
	if seemsComplete || b.patient {
		b.guessed = b.closed
	}
	b.opened, b.hasPods, b.isNew, b.patient, b.earlyAt = time.Time{}, false, false, false, time.Time{}
	return opened
}

// isPatient reports whether the window has a pod that came soon after a guess.
func (b *batch) isPatient() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.patient
}

// openedAt returns when the window was opened.
func (b *batch) openedAt() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.opened
}
