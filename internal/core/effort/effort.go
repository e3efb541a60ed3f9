// Package effort bounds how much work one decision may take. Work is counted, not timed, so
// that the same snapshot runs out of effort at the same place on every computer.
//
// A unit is about the work of checking one rule of one pod for one node. A loop whose length
// depends on pods spends a unit for each iteration, and Run ends the work when no units are left.
// The package imports nothing of the core. Read Meter first.
package effort

import (
	"fmt"
	"math"
	"runtime"
	"strings"
)

// Meter counts the work of one decision. The nil Meter allows any amount.
type Meter struct{ left, most int64 }

// New returns a meter that allows so many units.
func New(units int64) *Meter { return &Meter{left: units, most: units} }

// exhausted is what Spend panics with, for Run to recover.
type exhausted struct{ meter *Meter }

// Spend takes units from the meter. When it has none left, the function that Run called
// ends at once.
func (m *Meter) Spend(units int) {
	if m == nil {
		return
	}
	if m.left -= int64(units); m.left < 0 {
		panic(exhausted{m})
	}
}

// Spent returns how many units were taken so far.
func (m *Meter) Spent() int64 {
	if m == nil {
		return 0
	}
	return m.most - m.left
}

// Left returns how many units may still be taken.
func (m *Meter) Left() int64 {
	if m == nil {
		return math.MaxInt64
	}
	return m.left
}

// Run calls f and reports whether it came to its end. What f was working on is not fit for
// use if it did not.
func (m *Meter) Run(f func()) (ended bool) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case exhausted:
			if r.meter != m {
				panic(r) // of a decision around this one
			}
			ended = false
		default:
			panic(r)
		}
	}()
	f()
	return true
}

// Bug says what a panic that is being recovered was, and in which function and line.
func Bug(panicked any) string { return fmt.Sprintf("bug: %v in %s", panicked, origin()) }

// origin returns the function and line that panicked.
func origin() string {
	pcs := make([]uintptr, originDepth)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)])
	panicked := false
	for {
		f, more := frames.Next()
		switch {
		case panicked && !strings.HasPrefix(f.Function, "runtime.") && !strings.Contains(f.Function, "/effort."):
			return fmt.Sprintf("%s:%d", f.Function[strings.LastIndex(f.Function, "/")+1:], f.Line)
		case f.Function == "runtime.gopanic":
			panicked = true
		}
		if !more {
			return "?"
		}
	}
}

// originDepth bounds how far up the origin of a panic is looked for.
const originDepth = 64
