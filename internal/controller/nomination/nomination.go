// Package nomination is the loop that hands plans to kube-scheduler: it has the pods of a
// machine nominated for it just before it opens, and lets machines open in turn.
//
// Whoever registers Nodes asks MayOpen first. What is remembered here is only who waits;
// after a restart they ask again.
package nomination

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/dovetail-sh/dovetail/internal/apply"
	"github.com/dovetail-sh/dovetail/internal/core/nominate"
	"github.com/dovetail-sh/dovetail/internal/mirror"
)

const (
	// patience is how long a node may wait for this loop, should it not run.
	patience = 15 * time.Second
	// openKept is how long it is remembered that a node was opened.
	openKept = 10 * time.Second
	// breath gathers what happens at the same moment into one look.
	breath = 2 * time.Millisecond
	// syncPoll is how often the loop asks whether the mirror is whole at the start.
	syncPoll = 50 * time.Millisecond
	// retry is the pause after a write failed for no reason of its own.
	retry = time.Second
)

// Loop is the nominator. Its fields are set once, before Register.
type Loop struct {
	Mirror    *mirror.Store
	Nominator *apply.Nominator
	Log       *slog.Logger
	Now       func() time.Time
	// Synced tells whether the mirror has everything there was at the start.
	Synced func() bool

	news chan struct{}

	mu    sync.Mutex
	nodes map[string]turn // guarded by mu; by name
	open  func(claim string)
}

// turn is a node that waits to be opened, or has been.
type turn struct {
	claim         string
	asked, opened time.Time // opened is zero while it waits
}

// Register adds the loop to the manager; it runs on the leader only.
func (l *Loop) Register(mgr manager.Manager) error {
	l.news, l.nodes = make(chan struct{}, 1), map[string]turn{}
	l.Mirror.OnHint(l.stir)
	return mgr.Add(l)
}

// NeedLeaderElection tells that one process at a time may write.
func (l *Loop) NeedLeaderElection() bool { return true }

// OnTurn sets who is told that a claim's Node may be opened now.
func (l *Loop) OnTurn(open func(claim string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = open
}

// MayOpen tells whether the claim's Node may be opened to pods now. If not, OnTurn's
// function hears of the claim when it may.
func (l *Loop) MayOpen(claim string, node *corev1.Node) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, asked := l.nodes[node.Name]
	if !asked || n.claim != claim {
		n = turn{claim: claim, asked: l.Now()}
		l.nodes[node.Name] = n
		l.stir()
	}
	return !n.opened.IsZero() || l.Now().After(n.asked.Add(patience))
}

// Start hands over until the context ends.
func (l *Loop) Start(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-l.news:
			if !l.pause(ctx) {
				return nil
			}
		}
		until, err := l.look(ctx)
		if err != nil && ctx.Err() == nil {
			l.Log.Error("could not nominate pods", "error", err)
			until = l.Now().Add(retry)
		}
		timer.Stop()
		if !until.IsZero() {
			timer.Reset(max(until.Sub(l.Now()), time.Millisecond))
		}
	}
}

func (l *Loop) pause(ctx context.Context) bool {
	timer := time.NewTimer(breath)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// look decides, writes and opens, once.
func (l *Loop) look(ctx context.Context) (until time.Time, err error) {
	if !l.Synced() {
		return l.Now().Add(syncPoll), nil
	}
	step := nominate.Next(l.view())
	if err := l.Nominator.Nominate(ctx, &step); err != nil {
		// The nodes open all the same: a hint is worth less than a machine.
		err = fmt.Errorf("hand over to the scheduler: %w", err)
		l.turns(step.Open)
		return time.Time{}, err
	}
	l.turns(step.Open)
	return step.Until, nil
}

// view joins what the mirror knows of pods with who waits here.
func (l *Loop) view() nominate.View {
	pods, nodes := l.Mirror.Hints()
	now := l.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, n := range l.nodes {
		ready, known := l.Mirror.OpensAlone(name)
		if !n.opened.IsZero() && now.After(n.opened.Add(openKept)) || !known && now.After(n.asked.Add(patience)) {
			delete(l.nodes, name)
			continue
		}
		i, found := slices.BinarySearchFunc(nodes, name, func(n nominate.Node, name string) int { return cmp.Compare(n.Name, name) })
		if !found {
			nodes = slices.Insert(nodes, i, nominate.Node{Name: name, Ready: ready})
		}
		nodes[i].Stage, nodes[i].Since = nominate.Waiting, n.asked
		if !n.opened.IsZero() {
			nodes[i].Stage, nodes[i].Since = nominate.Opened, n.opened
		}
	}
	return nominate.View{At: now, Nodes: nodes, Pods: pods}
}

// turns tells that it is the nodes' turn.
func (l *Loop) turns(nodes []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range nodes {
		n := l.nodes[name]
		n.opened = l.Now()
		l.nodes[name] = n
		if l.open != nil {
			l.open(n.claim)
		}
	}
	if len(nodes) > 0 {
		l.stir()
	}
}

// stir has a look taken soon.
func (l *Loop) stir() {
	select {
	case l.news <- struct{}{}:
	default:
	}
}
