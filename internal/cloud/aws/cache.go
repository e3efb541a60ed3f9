package aws

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// cacheMost bounds a cache that says nothing else.
const cacheMost = 5_000

// cache remembers answers for a while. The zero value with a clock and a ttl is ready.
type cache[V any] struct {
	now func() time.Time
	ttl time.Duration
	// most is how many answers are remembered; a full cache is emptied. 0: cacheMost.
	most int

	mu      sync.Mutex
	entries map[string]cached[V]
}

type cached[V any] struct {
	value V
	until time.Time
}

// get returns the answer that is remembered, or else what fetch says. Errors are not remembered.
func (c *cache[V]) get(ctx context.Context, key string, fetch func(context.Context) (V, error)) (V, error) {
	c.mu.Lock()
	e, ok := c.entries[key]
	c.mu.Unlock()
	if ok && c.now().Before(e.until) {
		return e.value, nil
	}
	v, err := fetch(ctx)
	if err != nil {
		return v, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil || len(c.entries) >= cmp.Or(c.most, cacheMost) {
		c.entries = map[string]cached[V]{}
	}
	c.entries[key] = cached[V]{v, c.now().Add(c.ttl)}
	return v, nil
}

// last returns the answer that was remembered last, however old it is.
func (c *cache[V]) last(key string) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	return e.value, ok
}

// drop forgets one answer.
func (c *cache[V]) drop(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, key)
}
