// Package nomination is the loop that hands plans to kube-scheduler: it nominates pods for their
// node just before the node opens to pods, and lets nodes open one after the other.
//
// Whoever registers Nodes asks MayOpen first. What is remembered here is only who waits;
// after a restart they ask again.
package nomination

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/dovetail-sh/dovetail/internal/core/nominate"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
)

const (
	// patience is how long a node may wait for this loop, should it not run. pauseMost is how long the
	// loop may decide nothing while something is due.
	patience  = 30 * time.Second
	pauseMost = 10 * time.Second
	// openKept is how long it is remembered that a node was opened.
	openKept = 10 * time.Second
	// openSoon is how long a node may take to be open once it was its turn.
	openSoon = time.Second
	// breath gathers what happens at the same moment into one look.
	breath = 2 * time.Millisecond
	// syncPoll is how often the loop asks whether the mirror is whole at the start.
	syncPoll = 50 * time.Millisecond
	// retry is the pause after writes failed.
	retry = time.Second
)

// Loop is the nominator. Its fields are set once, before Register.
type Loop struct {
	Mirror    *mirror.Store
	Nominator *apply.Nominator
	Log       *slog.Logger
	Now       func() time.Time
	// Synced reports whether the mirror has everything there was at the start.
	Synced func() bool
	// WaitMost is how long a node that is ready waits for its turn at most.
	WaitMost time.Duration

	triggers chan struct{}

	writes sync.WaitGroup

	mu     sync.Mutex      // protects everything below
	nodes  map[string]turn // by name
	open   func(claim string)
	again  time.Time // after a failure
	looked time.Time // when the loop last decided
}

// turn is a node that waits to be opened, or has been.
type turn struct {
	claim string
	// ready is since when nothing else keeps it closed, opened when its turn came.
	asked, ready, opened time.Time
}

// Register adds the loop to the manager; it runs on the leader only.
func (l *Loop) Register(mgr manager.Manager) error {
	l.triggers, l.nodes = make(chan struct{}, 1), map[string]turn{}
	l.Mirror.OnNomination(l.wake)
	return mgr.Add(l)
}

// NeedLeaderElection reports that one process at a time may write.
func (l *Loop) NeedLeaderElection() bool { return true }

// OnTurn sets the function that is called when a claim's Node may be opened.
func (l *Loop) OnTurn(open func(claim string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = open
}

// MayOpen reports whether the claim's Node may be opened to pods now. If not, OnTurn's
// function is called when it may.
func (l *Loop) MayOpen(claim string, node *corev1.Node) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, asked := l.nodes[node.Name]
	if !asked || n.claim != claim {
		n = turn{claim: claim, asked: l.Now()}
		l.nodes[node.Name] = n
		l.wake()
	}
	since := n.asked
	if l.looked.After(since) {
		since = l.looked
	}
	return !n.opened.IsZero() || l.Now().After(since.Add(patience))
}

// Start hands over until the context ends.
func (l *Loop) Start(ctx context.Context) error {
	defer l.writes.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	rest := breath
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-l.triggers:
			if !l.pause(ctx, rest) {
				return nil
			}
		}
		start := l.Now()
		pause := l.Reconcile(ctx)
		rest = max(breath, l.Now().Sub(start))
		timer.Stop()
		if pause > 0 {
			timer.Reset(pause)
		}
	}
}

// Reconcile nominates pods and opens nodes once. The pause is until the next time that something is
// due; zero: until an event.
func (l *Loop) Reconcile(ctx context.Context) (pause time.Duration) {
	until := l.observe(ctx)
	if until.IsZero() {
		return 0
	}
	return max(until.Sub(l.Now()), time.Millisecond)
}

// Triggers brings the next look forward.
func (l *Loop) Triggers() <-chan struct{} { return l.triggers }

func (l *Loop) pause(ctx context.Context, rest time.Duration) bool {
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// observe decides, and has written and opened what was decided. It doesn't wait for the
// writes: what is written counts as done in the next look, and a nomination that is lost
// meanwhile must not wait for them.
func (l *Loop) observe(ctx context.Context) (until time.Time) {
	if !l.Synced() {
		return l.Now().Add(syncPoll)
	}
	if again := l.afterFailure(); again.After(l.Now()) {
		return again
	}
	step := nominate.Next(l.view())
	if last := l.Now().Add(pauseMost); step.Until.After(last) {
		step.Until = last // MayOpen takes a loop that has not decided for long for dead
	}
	if err := l.Nominator.Clear(ctx, step.Clear); err != nil {
		l.failed(ctx, err)
	}
	if len(step.Set)+len(step.Open) == 0 {
		return step.Until
	}
	l.launchOrder(step.Open)
	l.Nominator.Assume(step.Set)
	write := func() {
		// The nodes open in any case: a nomination is worth less than a node.
		err := errors.Join(l.Nominator.Set(ctx, step.Set), l.Nominator.Open(ctx, step.Open))
		l.report(step.Open)
		if err != nil {
			l.failed(ctx, err)
		}
	}
	if l.Nominator.OneByOne {
		write()
	} else {
		l.writes.Go(write)
	}
	return step.Until
}

// failed has the next look taken a little later.
func (l *Loop) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	l.Log.Error("could not nominate pods", "error", err)
	l.mu.Lock()
	l.again = l.Now().Add(retry)
	l.mu.Unlock()
	l.wake()
}

// afterFailure returns when looks may be taken again.
func (l *Loop) afterFailure() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.again
}

// view joins what the mirror knows of pods with who waits here.
func (l *Loop) view() nominate.View {
	v := l.Mirror.Nominations().View()
	v.WaitMost = l.WaitMost
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looked = v.At
	for name, t := range l.nodes {
		opens, known := l.Mirror.IsOpenButForOurTaint(name)
		switch {
		case !t.opened.IsZero() && v.At.After(t.opened.Add(openKept)), !known && v.At.After(t.asked.Add(patience)):
			delete(l.nodes, name)
			continue
		case !opens:
			t.ready = time.Time{}
		case t.ready.IsZero():
			t.ready = v.At
		}
		l.nodes[name] = t
		n := nominate.Node{Name: name, Stage: nominate.Waiting, Asked: t.asked, ReadyAt: t.ready}
		i, found := slices.BinarySearchFunc(v.Nodes, name, func(n nominate.Node, name string) int { return cmp.Compare(n.Name, name) })
		if !found {
			v.Nodes = slices.Insert(v.Nodes, i, n)
		}
		switch {
		case t.opened.IsZero():
		case v.Nodes[i].Stage == nominate.Closed && v.At.Before(t.opened.Add(openSoon)):
			n.Stage = nominate.Opening
		default:
			n.Stage = nominate.Open
		}
		n.HasRoom = v.Nodes[i].HasRoom
		v.Nodes[i] = n
	}
	return v
}

// launchOrder notes that it is the nodes' turn.
func (l *Loop) launchOrder(nodes []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range nodes {
		t := l.nodes[name]
		t.opened = l.Now()
		l.nodes[name] = t
	}
}

// report has the claims of nodes looked at whose turn it is.
func (l *Loop) report(nodes []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range nodes {
		if t, ok := l.nodes[name]; ok && l.open != nil {
			l.open(t.claim)
		}
	}
	if len(nodes) > 0 {
		l.wake()
	}
}

// wake has a look taken soon.
func (l *Loop) wake() {
	select {
	case l.triggers <- struct{}{}:
	default:
	}
}
