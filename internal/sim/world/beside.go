package world

import (
	"math/rand/v2"
	"slices"
	"time"
)

// beside is a random source beside the world's own: what a world without it lives through does not
// depend on what it draws.
type beside struct {
	w    *World
	rand *rand.Rand
	// on: there is what it draws in this world.
	on bool
}

// drawn is the share of the worlds that have each thing which is drawn beside the others.
const drawn = 1.0 / 3

// newBeside returns a source of a seed. The purpose makes it another than the others of that seed.
func newBeside(w *World, seed, purpose uint64, what Fault) beside {
	b := beside{w: w, rand: rand.New(rand.NewPCG(seed, purpose))}
	b.on = b.chance(drawn) || slices.Contains(w.opts.With, what)
	if slices.Contains(w.opts.Without, what) {
		b.on = false
	}
	return b
}

func (b *beside) chance(p float64) bool { return b.rand.Float64() < p }

// upTo returns a number from least to most.
func (b *beside) upTo(least, most int) int { return least + b.rand.IntN(most-least+1) }

func (b *beside) between(least, most time.Duration) time.Duration {
	return least + time.Duration(b.rand.Int64N(int64(most-least)))
}

// one returns one of several.
func one[T any](b *beside, of ...T) T { return of[b.rand.IntN(len(of))] }

// again has something happen now and then until the storm is over, on an ordinary day seldom.
func (b *beside) again(what Fault, mean time.Duration, does func()) {
	if b.w.opts.Ordinary {
		mean *= seldom
	}
	b.repeat(what, mean, does)
}

func (b *beside) repeat(what Fault, mean time.Duration, does func()) {
	b.w.after(time.Duration(b.rand.ExpFloat64()*float64(mean)), func() {
		if !b.w.chaos.stormy {
			return
		}
		b.w.note("fault %s", what)
		b.w.count(string(what))
		does()
		b.repeat(what, mean, does)
	})
}

// lasts returns for how long something has been so, and takes note of when it began.
func lasts(w *World, since *time.Time, is bool) time.Duration {
	switch {
	case !is:
		*since = time.Time{}
		return 0
	case since.IsZero():
		*since = w.at
	}
	return w.at.Sub(*since)
}

// acts reports whether a process leads and does something.
func (w *World) acts() bool {
	p := w.process
	return p != nil && p.running && !p.dead && !p.stopped.After(w.at)
}
