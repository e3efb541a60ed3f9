package remote_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote/serve"
)

// crier is a provider with notices: it repeats each until it was taken.
type crier struct {
	*shop
	mu      sync.Mutex
	pending []cloud.Notice
	taken   []cloud.Notice
}

func (c *crier) Watch(ctx context.Context, report func(context.Context, cloud.Notice) error) {
	for {
		c.mu.Lock()
		if len(c.pending) == 0 {
			c.mu.Unlock()
			<-ctx.Done()
			return
		}
		n := c.pending[0]
		c.mu.Unlock()
		if report(ctx, n) != nil {
			return // the stream is over
		}
		c.mu.Lock()
		c.pending, c.taken = c.pending[1:], append(c.taken, n)
		c.mu.Unlock()
	}
}

func (c *crier) counts() (pending, taken int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pending), len(c.taken)
}

// TestANoticeIsConfirmedAfterItsEffect: one whose effect fails is not confirmed, and comes again.
func TestANoticeIsConfirmedAfterItsEffect(t *testing.T) {
	t.Parallel()
	notices := []cloud.Notice{{Kind: cloud.Reclaimed, InstanceID: "shop://a"}, {Kind: cloud.ZoneShifted, Zone: "zone-1"}}
	c := &crier{shop: &shop{}, pending: notices}
	p := connect(t, listen(t, t, serve.New(c, serve.Options{Epoch: epoch()})), fakeCluster(t))
	ctx, cancel := context.WithCancel(t.Context())
	var got []cloud.Notice
	var failures int
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.(cloud.Watcher).Watch(ctx, func(_ context.Context, n cloud.Notice) error {
			if _, taken := c.counts(); taken != len(got) {
				t.Errorf("%d notices are confirmed before the effect of number %d", taken, len(got)+1)
			}
			if failures < 2 {
				failures++
				return errors.New("the API server is away")
			}
			got = append(got, n)
			return nil
		})
	}()
	eventually(t, func() bool { pending, _ := c.counts(); return pending == 0 })
	cancel()
	<-done
	if diff := cmp.Diff(notices, got); diff != "" || failures != 2 {
		t.Errorf("%d failures; notices (-sent +got):\n%s", failures, diff)
	}
}

// conditional is a shop whose instances have an agent that sees reclaims.
type conditional struct {
	*shop
	notices []cloud.ConditionNotice
}

func (c conditional) ConditionNotices() []cloud.ConditionNotice { return c.notices }

// TestConditionsThatAreNoticesCrossTheWire: all of what a provider says of them arrives, and what cannot be refuses its
// description.
func TestConditionsThatAreNoticesCrossTheWire(t *testing.T) {
	t.Parallel()
	notices := []cloud.ConditionNotice{
		{ConditionType: "PreemptionScheduled", ConditionStatus: "True", Kind: cloud.Reclaimed, EndsRegex: "at (.*)", Within: 30 * time.Second},
		{ConditionType: "VMEventScheduled", ConditionStatus: "True", ReasonRegex: "Freeze", Kind: cloud.MaintenanceScheduled},
	}
	p := connect(t, listen(t, t, serve.New(conditional{&shop{}, notices}, serve.Options{Epoch: epoch()})), fakeCluster(t))
	if diff := cmp.Diff(notices, p.(cloud.ConditionNoticer).ConditionNotices()); diff != "" {
		t.Errorf("conditions (-sent +got):\n%s", diff)
	}
	bad := []cloud.ConditionNotice{{ConditionType: "PreemptionScheduled", ConditionStatus: "True", Kind: cloud.Ended}}
	link, err := remote.Open(remote.Options{Address: listen(t, t, serve.New(conditional{&shop{}, bad}, serve.Options{Epoch: epoch()})), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = link.Close() })
	if _, err := link.Describe(t.Context()); err == nil || !strings.Contains(err.Error(), `condition notice 0 (PreemptionScheduled=True): its kind is "instance_terminated"`) {
		t.Errorf("Describe: %v, want that the kind cannot be", err)
	}
}

// TestWithoutNoticesNothingIsWatched: the capability is asked, not assumed.
func TestWithoutNoticesNothingIsWatched(t *testing.T) {
	t.Parallel()
	p := connect(t, listen(t, t, serve.New(&shop{}, serve.Options{Epoch: epoch()})), fakeCluster(t))
	if _, able := p.(cloud.Rebooter); able {
		t.Error("the provider reboots, and its server does not")
	}
	if reason, err := p.(cloud.Drifter).Drifted(t.Context(), shopClass, "shop://a"); reason != "" || err != nil {
		t.Errorf("drift of a provider without it: %q, %v", reason, err)
	}
}
