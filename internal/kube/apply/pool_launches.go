package apply

import (
	"errors"
	"slices"
	"sync"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// ErrOvertaken says that launches were decided on before another loop launched in one of
// their pools. Both would use the same part of the pool's limits, so the later ones are
// decided anew.
var ErrOvertaken = errors.New("another loop launched in the same pool meanwhile")

// PoolLaunches records which loop launched in which pool with limits, so that the loops see
// each other's launches. All Launchers of a process share one; the zero value is ready.
type PoolLaunches struct {
	mu   sync.Mutex // protects everything below, and is held while such claims are made
	made int        // claims
	last map[launching]int
}

// launching identifies a loop and a pool that it launched in.
type launching struct {
	by   *Launcher
	pool string
}

// Snapshot returns the cluster as it is. What is launched from now on is taken to have been
// decided on it.
func (l *Launcher) Snapshot() *cluster.Snapshot {
	l.PoolLaunches.mu.Lock()
	l.seen = l.PoolLaunches.made
	l.PoolLaunches.mu.Unlock()
	return l.Mirror.Snapshot()
}

// Overtaken reports whether another loop has launched in a pool of the launches, one with
// limits, since the snapshot was taken.
func (l *Launcher) Overtaken(launches []plan.Launch) bool {
	if !slices.ContainsFunc(launches, l.limited) {
		return false
	}
	l.PoolLaunches.mu.Lock()
	defer l.PoolLaunches.mu.Unlock()
	return l.overtaken(launches)
}

// limited reports whether the launch's pool has limits.
func (l *Launcher) limited(launch plan.Launch) bool {
	np, ok := l.Mirror.PoolObject(launch.Pool)
	return ok && len(np.Spec.Limits) > 0
}

// overtaken is Overtaken where some pool has limits; PoolLaunches is locked.
func (l *Launcher) overtaken(launches []plan.Launch) bool {
	for t, n := range l.PoolLaunches.last {
		if t.by != l && n > l.seen && slices.ContainsFunc(launches, func(launch plan.Launch) bool { return launch.Pool == t.pool && l.limited(launch) }) {
			return true
		}
	}
	return false
}

// took notes that the loop made a claim of a pool; PoolLaunches is locked.
func (l *Launcher) took(pool string) {
	t := l.PoolLaunches
	if t.last == nil {
		t.last = map[launching]int{}
	}
	t.made++
	t.last[launching{l, pool}] = t.made
}
