package world

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

// What a cloud may be like that accepts launches before it decides about them.
const (
	// LateIDs: instances get their provider ID later.
	LateIDs Fault = "late-provider-ids"
	// LateFailures: the cloud takes the first choice, and says later that it has no capacity.
	LateFailures Fault = "late-failures"
	// StuckLaunches: some launches are never decided.
	StuckLaunches Fault = "stuck-launches"
	// ShortAtFirst: when the world begins, many offerings are not in stock. No seed draws it.
	ShortAtFirst Fault = "short-at-first"
	// TypesLater: the cloud has no instance types at first, and says when it has. No seed draws it.
	TypesLater Fault = "types-later"
	// LateNotices: there are notices of late failures.
	LateNotices Fault = "late-notices"
)

const (
	// provisionalPrefix is how provisional IDs begin.
	provisionalPrefix = "order:///"
	// failsAfter is how long it takes until a launch fails late.
	failsAfter = 2 * time.Minute
	// followEvery is how often the product is to ask for an instance whose launch may fail.
	followEvery = 15 * time.Second
	// typesAfter is when a cloud has instance types that has none at first.
	typesAfter = 65 * time.Second
	// launchPatience is how long launches of a cloud may take some of which are never decided.
	launchPatience = 8 * time.Minute
)

// lateLaunches are launches that are decided later.
type lateLaunches struct {
	beside
	ids, failures, stuck, notices bool
	// short is when a launch last failed late at a place, and in which life of the product.
	short map[catalog.Place]lateShort
	// waits are how long the product took to launch after a late failure, or after the cloud got instance types.
	waits []time.Duration
	// failed are those moments after which nothing was launched yet.
	failed []time.Time
}

// lateShort is a late failure.
type lateShort struct {
	at time.Time
	p  *process
}

func newLateLaunches(w *World, seed uint64) *lateLaunches {
	l := &lateLaunches{beside: newBeside(w, seed, 0x6c617465, LateIDs), short: map[catalog.Place]lateShort{}}
	l.ids = l.on
	l.failures = newBeside(w, seed, 0x6c617466, LateFailures).on
	l.stuck = newBeside(w, seed, 0x6c617467, StuckLaunches).on && l.ids
	l.notices = newBeside(w, seed, 0x6c617468, LateNotices).on && l.failures
	return l
}

// begin has the cloud without instance types for a while. A minute passes then until it is asked again for its types.
func (l *lateLaunches) begin() {
	w := l.w
	if !slices.Contains(w.opts.With, TypesLater) {
		return
	}
	types := w.cloud.types
	w.cloud.types = nil
	w.after(typesAfter, func() {
		w.cloud.types = types
		l.failed = append(l.failed, w.at)
		for _, p := range w.processes() {
			p.typesChanged(cloud.ClassRef{Group: kwokv1alpha1.Group, Kind: "KWOKNodeClass", Name: "default"})
		}
	})
}

// boots has an instance go on as the cloud decides: a doomed one fails, the others join in the end.
func (l *lateLaunches) boots(i *instance) {
	w := l.w
	if i.isDoomed {
		w.count("late failures")
		w.after(failsAfter, func() { l.fail(i) })
	}
	if l.ids {
		i.final, i.ID, i.Provisional = i.ID, provisionalPrefix+i.node, true
		w.cloud.byID[i.ID] = i
		if l.stuck && w.chaos.stormy && l.chance(0.05) {
			w.count("launches that are never decided")
			i.isStuck = true
			return
		}
		wait := l.between(3*time.Second, 100*time.Second)
		if !i.isDoomed {
			w.after(wait, func() { l.decide(i) })
		}
		return
	}
	if !i.isDoomed {
		w.cloud.joins(i)
	}
}

// decide gives an instance its provider ID.
func (l *lateLaunches) decide(i *instance) {
	if i.state != booting {
		return
	}
	l.w.note("cloud calls %s %s", i.ID, i.final)
	i.ID, i.Provisional = i.final, false
	l.w.cloud.byID[i.ID] = i
	l.notify(cloud.Notice{Kind: cloud.LaunchChanged, InstanceID: provisionalPrefix + i.node})
	l.w.cloud.joins(i)
}

// fail ends a launch that was accepted. What is left of the instance costs nothing, and is there until it is
// terminated.
func (l *lateLaunches) fail(i *instance) {
	if i.state != booting {
		return
	}
	w := l.w
	w.note("cloud fails the launch of %s for %s", i.ID, i.Claim)
	i.Failed = &cloud.Failure{Kind: cloud.NoCapacity, Message: "nothing in stock after all"}
	if m := w.opts.Mutant; m != nil && m.Failed != nil {
		m.Failed(i.Failed)
	}
	i.failedAt = w.at
	l.short[i.place] = lateShort{w.at, w.process}
	l.failed = append(l.failed, w.at)
	l.notify(cloud.Notice{Kind: cloud.LaunchFailed, InstanceID: i.ID, Failure: i.Failed})
}

// notify gives the product a notice, and again as long as it asks for that.
func (l *lateLaunches) notify(n cloud.Notice) {
	if !l.notices {
		return
	}
	p := l.w.process
	if p == nil || p.dead || !p.running || p.interruption == nil {
		return // it is lost
	}
	p.after(l.between(100*time.Millisecond, 3*time.Second), func() { l.act(p, n, 10) })
}

func (l *lateLaunches) act(p *process, n cloud.Notice, left int) {
	p.act(func() {
		if err := p.interruption.Act(p.ctx, n); err != nil && left > 0 {
			p.after(l.between(5*time.Second, 20*time.Second), func() { l.act(p, n, left-1) })
		}
	})
}

// launched judges a launch: what failed late is not tried again at once.
func (l *lateLaunches) launched(i *instance) {
	w := l.w
	if had := l.short[i.place]; had.p == w.process && w.at.Sub(had.at) > time.Minute && w.at.Sub(had.at) < 3*time.Minute {
		w.fail("instance %s for %s is launched at %v, where a launch failed %s ago", i.ID, i.Claim, i.place, w.at.Sub(had.at))
	}
	for _, at := range l.failed {
		l.waits = append(l.waits, w.at.Sub(at))
	}
	l.failed = nil
}

// check judges claims whose launch has failed, or is never decided.
func (l *lateLaunches) check() {
	w := l.w
	if !slices.ContainsFunc(cluster.All[*corev1.Pod](w.api), func(p *corev1.Pod) bool { return p.Spec.NodeName == "" && p.DeletionTimestamp == nil }) {
		l.failed = nil // its pods found room
	}
	for _, i := range w.cloud.all {
		nc := w.checks.claimOf(i)
		if nc == nil || nc.DeletionTimestamp != nil || !w.acts() {
			i.ignoredSince = time.Time{}
			continue
		}
		if isIgnored := i.Failed != nil; lasts(w, &i.ignoredSince, isIgnored) > failedMost {
			w.fail("claim %s stays though its launch failed %s ago", nc.Name, w.at.Sub(i.failedAt))
		}
		if i.isStuck && w.at.Sub(i.Created) > launchPatience+stuckMost {
			w.fail("claim %s is still waiting for its launch after %s", nc.Name, w.at.Sub(i.Created))
		}
	}
}

const (
	// failedMost is how long a claim may stay whose launch has failed while the product runs, and stuckMost how much longer
	// than its patience one whose launch is never decided: writes are refused, and answers are slow.
	failedMost = 4 * time.Minute
	stuckMost  = 10 * time.Minute
)

// Patience says that launches may fail late, and how long they may take.
func (s *provider) Patience(cloud.ClassRef) lifecycle.Patience {
	l := s.cloud.w.late
	patience := lifecycle.Patience{}
	if l.failures {
		patience.Follow = followEvery
	}
	if l.stuck {
		patience.Launch, patience.Registration = launchPatience, launchPatience+10*time.Minute
	}
	if m := s.cloud.w.opts.Mutant; m != nil && m.Patience != nil {
		patience = m.Patience(patience)
	}
	return patience
}

// OnTypesChanged has the process notified that types have changed.
func (s *provider) OnTypesChanged(changed func(cloud.ClassRef)) { s.p.typesChanged = changed }

// Watch reports nothing by itself: the world hands the product its notices.
func (s *provider) Watch(ctx context.Context, _ func(context.Context, cloud.Notice) error) {
	<-ctx.Done()
}
