package world

import (
	"errors"
	"log/slog"
	"runtime/debug"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/operator"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

func newProcess(w *World) *process {
	p := &process{w: w, scheme: operator.Scheme()}
	p.fence = operator.NewFence(func() time.Time { return w.at }, func(error) { p.end() })
	return p
}

// act runs code of the product. Its panics are violations.
func (p *process) act(do func()) {
	defer func() {
		if r := recover(); r != nil {
			p.w.fail("the product panicked: %v\n%s", r, debug.Stack())
		}
	}()
	do()
}

// now is the process's clock, which need not be right.
func (p *process) now() time.Time {
	now := p.w.at.Add(p.w.chaos.skew)
	if m := p.w.opts.Mutant; m != nil && m.Now != nil {
		now = m.Now(now)
	}
	return now
}

// thinking is the clock of loops that decide, which read it before and after, holding no lock. While
// they do, the world goes on.
func (p *process) thinking() time.Time {
	if !p.dead && p.w.chaos.onThought() == ThinksLong {
		p.w.elapse(p.w.between(0, slowest))
	}
	return p.now()
}

// after makes something happen to the process after a pause, unless it has died by then.
func (p *process) after(pause time.Duration, what func()) {
	if !p.dead {
		p.w.afterTo(p, pause, what)
	}
}

// later is how the product does things after a pause.
func (p *process) later(pause time.Duration, do func()) {
	p.after(pause+p.w.chaos.delay(), func() { p.act(do) })
}

// crash ends a life at once. The next begins some time later.
func (p *process) crash() {
	if p.dead {
		return
	}
	p.w.note("crash")
	p.w.count("crashes")
	p.end()
	if p == p.w.process {
		p.w.after(p.w.between(time.Second, 40*time.Second), p.w.startProcess)
	}
}

// mayAct returns an error when nothing that the process does has an effect any more.
func (p *process) mayAct() error {
	if p.dead {
		return errGone
	}
	if m := p.w.opts.Mutant; m != nil && m.Unfenced {
		return nil
	}
	return p.fence.Check()
}

func (p *process) end() {
	p.dead = true
	p.cancel()
	p.w.forget(p)
}

// seen is what the product is shown of an object.
func (p *process) seen(o client.Object) client.Object {
	if m := p.w.opts.Mutant; m != nil && m.See != nil {
		o = o.DeepCopyObject().(client.Object)
		m.See(p.w, o)
	}
	return o
}

func (p *process) log() *slog.Logger {
	if p.w.opts.Journal == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(p.w.opts.Journal, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.String("at", p.w.at.Sub(start).String())
		}
		return a
	}}))
}

// errGone is what a process is answered that is not there any more.
var errGone = errors.New("world: the process is gone")

// reader returns what reads objects for the process, as long as it lives.
func (p *process) reader(shelf func(kind string) *cluster.Shelf) cluster.Reader {
	return cluster.Reader{Shelf: shelf, Check: func() error {
		if p.dead {
			return errGone
		}
		return nil
	}}
}
