package aws

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"
)

const (
	// pricesKept is how long prices are taken to hold.
	pricesKept = 12 * time.Hour
	// priceRetry is the pause after prices could not be read; it doubles with each failure in
	// a row, up to priceRetryMost.
	priceRetry     = 15 * time.Second
	priceRetryMost = 10 * time.Minute
	// pricePatience is how long one reading of prices may take.
	pricePatience = 5 * time.Minute
	// firstPatience is how long the first market waits for its prices: a launch waits with it.
	firstPatience = 15 * time.Second
)

// quotes are the prices of one capacity type. They are read again when they are old.
type quotes struct {
	opts         *Options
	capacityType string
	source       func(context.Context) (priced, error)
	// changed is called after each reading, with what was read.
	changed func(read priced, err error)
	reading turnstile

	mu     sync.Mutex
	known  priced    // replaced whole and never changed
	readAt time.Time // catalogDay: not yet
	// failures is how many readings in a row have failed; the next one is due at next, whose
	// zero value says that there was none.
	failures int
	next     time.Time
}

// refresh reads the prices when they are old, and sooner after a failure. It returns when to
// be called again.
func (q *quotes) refresh(ctx context.Context) time.Duration {
	if q.reading.enter(ctx) != nil {
		return priceRetry
	}
	defer q.reading.leave()
	if due := q.due(); due > 0 {
		return due
	}
	q.read(ctx, pricePatience)
	return max(time.Second, q.due())
}

// first reads prices if nobody has tried to yet.
func (q *quotes) first(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstPatience)
	defer cancel()
	if q.reading.enter(ctx) != nil {
		return
	}
	defer q.reading.leave()
	q.mu.Lock()
	tried := !q.next.IsZero()
	q.mu.Unlock()
	if !tried {
		q.read(ctx, firstPatience)
	}
}

// due returns when prices are to be read, counted from now.
func (q *quotes) due() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.next.Sub(q.opts.Now())
}

// prices returns what is known.
func (q *quotes) prices() priced {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.known
}

// read reads prices; what could be read counts even if not all could. The caller has entered the
// turnstile.
func (q *quotes) read(ctx context.Context, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	read, err := q.source(ctx)
	q.note(read, err)
	q.changed(read, err)
}

// note merges what was read into what is known, and says when to read next.
func (q *quotes) note(read priced, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.opts.Now()
	q.known = q.known.with(read)
	switch {
	case err == nil:
		q.failures, q.readAt, q.next = 0, now, now.Add(pricesKept)
	case errors.Is(err, errNoPriceList):
		q.next = now.Add(pricesKept)
		q.opts.Log.Warn("there is no price list to ask; instance types count as those of us-east-1 in May 2025, and newer ones cannot be launched", "region", q.opts.Config.Region, "isolated_vpc", q.opts.IsolatedVPC)
	default:
		pause := min(priceRetry<<min(q.failures, 10), priceRetryMost)
		q.failures, q.next = q.failures+1, now.Add(pause)
		q.opts.Log.Warn("prices could not be read, will try again; older ones are used", "capacity_type", q.capacityType, "read_at", q.readAt, "in_a_row", q.failures, "again", pause, "error", err)
	}
	q.opts.Meter.PricesRead(q.capacityType, q.readAt)
}

// with returns prices with others merged into them; neither is changed.
func (p priced) with(other priced) priced {
	all := maps.Clone(p)
	for name, zones := range other {
		if all == nil {
			all = priced{}
		}
		merged := maps.Clone(all[name])
		if merged == nil {
			merged = map[string]float64{}
		}
		maps.Copy(merged, zones)
		all[name] = merged
	}
	return all
}
