package awssim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// terminatedVisible is how long a terminated instance is still described.
	terminatedVisible = time.Hour
)

// base is what all services of the account share: options, time, chance, and what is planned.
type base struct {
	opts     *Options
	clock    Clock
	rng      *rand.Rand
	events   []event
	planned  int            // events ever
	deferred []func()       // calls to the registrar, made by Tick when the lock is free
	refused  map[string]int // answers by operation and error code
	types    types
	faults   []*Fault
}

// event is something that happens at a time.
type event struct {
	at    time.Time
	order int
	do    func(now time.Time)
}

// at plans something. Called under the lock.
func (s *base) at(when time.Time, do func(now time.Time)) {
	s.planned++
	e := event{when, s.planned, do}
	i, _ := slices.BinarySearchFunc(s.events, e, func(a, b event) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.order, b.order))
	})
	s.events = slices.Insert(s.events, i, e)
}

// catchUp performs what is due, in order.
func (s *base) catchUp() {
	now := s.clock.Now()
	for len(s.events) > 0 && !s.events[0].at.After(now) {
		e := s.events[0]
		s.events = s.events[1:]
		e.do(e.at)
	}
}

// id makes a new id: prefix and 17 hexadecimal digits.
func (s *base) id(prefix string) string {
	return fmt.Sprintf("%s-%08x%09x", prefix, s.rng.Uint32(), s.rng.Uint64N(1<<36))
}

// between draws a duration evenly.
func (s *base) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.rng.Int64N(int64(most-least)+1))
}

// visible returns from when on a thing that is made now is seen.
func (s *base) visible(now time.Time) time.Time {
	delay := s.opts.Consistency
	for _, f := range s.faultsOf(FaultInconsistent, now) {
		delay = max(delay, f.Delay.Duration)
	}
	if delay == 0 {
		return now
	}
	return now.Add(s.between(delay/2, delay))
}

// arn names a thing of the account.
func (s *base) arn(service, resource string) string {
	region := s.opts.Region
	if service == "iam" {
		region = ""
	}
	return "arn:aws:" + service + ":" + region + ":" + s.opts.AccountID + ":" + resource
}

// faultsOf returns the conditions of a kind, and forgets those that are over.
func (s *base) faultsOf(kind string, now time.Time) []*Fault {
	s.faults = slices.DeleteFunc(s.faults, func(f *Fault) bool {
		return !f.until.IsZero() && !now.Before(f.until) || f.Times > 0 && f.struck >= f.Times
	})
	var out []*Fault
	for _, f := range s.faults {
		if f.Kind == kind {
			out = append(out, f)
		}
	}
	return out
}

// strikes reports whether a condition of the kind hits this call.
func (s *base) strikes(kind, operation string, now time.Time) bool {
	return s.striking(kind, operation, now) != nil
}

// striking returns the condition of the kind that hits this call; nil: there is none.
func (s *base) striking(kind, operation string, now time.Time) *Fault {
	for _, f := range s.faultsOf(kind, now) {
		if matches(f.Operation, operation) && (f.Rate == 0 || s.rng.Float64() < f.Rate) {
			f.struck++
			return f
		}
	}
	return nil
}
