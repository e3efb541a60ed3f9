package aws

import (
	"context"
	"sync"
	"time"
)

const (
	// gatherWait is how long the first of several questions waits for others.
	gatherWait = 20 * time.Millisecond
	// gatherMost is how many questions go out in one request: EC2 takes as many values of a filter.
	gatherMost = 200
	// gatherPatience is how long the answer may take.
	gatherPatience = time.Minute
)

// gatherer combines questions about single things into requests for many.
type gatherer[V any] struct {
	ask func(ctx context.Context, keys []string) (map[string]V, error)
	now func() time.Time
	// gathered gets for how long the questions of a request waited, and how many they are.
	gathered func(waited time.Duration, size int)

	mu   sync.Mutex
	open *gathering[V]
}

type gathering[V any] struct {
	keys    map[string]bool
	full    chan struct{}
	done    chan struct{}
	answers map[string]V
	err     error
}

// get asks about one thing; false: there was no answer to it.
func (g *gatherer[V]) get(ctx context.Context, key string) (V, bool, error) {
	var none V
	g.mu.Lock()
	round := g.open
	if round == nil {
		round = &gathering[V]{keys: map[string]bool{}, full: make(chan struct{}), done: make(chan struct{})}
		g.open = round
		go g.run(context.WithoutCancel(ctx), round)
	}
	round.keys[key] = true
	if len(round.keys) == gatherMost {
		close(round.full)
		g.open = nil
	}
	g.mu.Unlock()
	select {
	case <-round.done:
	case <-ctx.Done():
		return none, false, ctx.Err()
	}
	answer, ok := round.answers[key]
	return answer, ok, round.err
}

func (g *gatherer[V]) run(ctx context.Context, round *gathering[V]) {
	defer close(round.done)
	begun := g.now()
	wait := time.NewTimer(gatherWait)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-round.full:
	}
	g.mu.Lock()
	if g.open == round {
		g.open = nil
	}
	keys := make([]string, 0, len(round.keys))
	for key := range round.keys {
		keys = append(keys, key)
	}
	g.mu.Unlock()
	g.gathered(g.now().Sub(begun), len(keys))
	ctx, cancel := context.WithTimeout(ctx, gatherPatience)
	defer cancel()
	round.answers, round.err = g.ask(ctx, keys)
}
