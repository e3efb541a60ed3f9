package operator

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lease is a lock that takes every write, or none.
type lease struct {
	resourcelock.Interface
	refuses bool
	writes  int
}

func (l *lease) Create(context.Context, resourcelock.LeaderElectionRecord) error { return l.write() }

func (l *lease) Update(context.Context, resourcelock.LeaderElectionRecord) error { return l.write() }

func (l *lease) write() error {
	if l.refuses {
		return errors.New("conflict")
	}
	l.writes++
	return nil
}

// passed counts requests that got through.
type passed int

func (p *passed) RoundTrip(*http.Request) (*http.Response, error) {
	*p++
	return &http.Response{Body: http.NoBody}, nil
}

func (p *passed) Do(r *http.Request) (*http.Response, error) { return p.RoundTrip(r) }

func send(by func(*http.Request) (*http.Response, error), method string) error {
	answer, err := by(httptest.NewRequest(method, "/pods/a", http.NoBody))
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

func TestALeaderThatWasHeldUpDoesNotAct(t *testing.T) {
	t.Parallel()
	const first, renew, fail = "take the lease", "renew it", "fail to"
	for name, c := range map[string]struct {
		does []string
		// pause is how long nothing happens then.
		pause time.Duration
		want  bool // it may act
	}{
		"before it was ever the leader nothing is held back": {nil, time.Hour, true},
		"in time":         {[]string{first}, fenceAfter - 1, true},
		"too late":        {[]string{first}, fenceAfter, false},
		"renewed in time": {[]string{first, renew}, fenceAfter - 1, true},
		"a write of the lease that fails is none":  {[]string{first, fail}, fenceAfter - time.Second, false},
		"and who failed may not act on the way on": {[]string{first, renew, fail, fail}, fenceAfter, false},
	} {
		at, lost := time.Unix(0, 0), 0
		f := NewFence(func() time.Time { return at }, func(error) { lost++ })
		l := &lease{}
		lock := f.fence(l)
		for _, what := range c.does {
			at = at.Add(2 * time.Second)
			l.refuses = what == fail
			if what == first {
				_ = lock.Create(t.Context(), resourcelock.LeaderElectionRecord{})
			} else {
				_ = lock.Update(t.Context(), resourcelock.LeaderElectionRecord{})
			}
		}
		l.refuses, l.writes = false, 0
		at = at.Add(c.pause)

		var api, cloud passed
		_ = send(f.transport(&api).RoundTrip, http.MethodGet)
		err1 := send(f.transport(&api).RoundTrip, http.MethodDelete)
		err2 := send(fencedDoer{&cloud, f}.Do, http.MethodPost)
		err3 := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{})
		for what, err := range map[string]error{"a write": err1, "a call": err2, "the lease": err3} {
			if got := err == nil; got != c.want || err != nil && !errors.Is(err, errFenced) {
				t.Errorf("%s: %s: %v, want it to be let through: %v", name, what, err, c.want)
			}
		}
		if reads, writes := 1, map[bool]int{true: 1}[c.want]; int(api) != reads+writes || int(cloud) != writes || l.writes != writes || lost > 0 == c.want {
			t.Errorf("%s: %d requests to the API server, %d to the cloud, %d of the lease; %d losses reported", name, api, cloud, l.writes, lost)
		}
	}
}
