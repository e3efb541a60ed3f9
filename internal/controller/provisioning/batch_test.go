package provisioning

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/controller/loop"
)

// window returns when the batch's next window closes, driven as the loop drives it.
func window(t *testing.T, b *batch) time.Duration {
	t.Helper()
	start := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_ = loop.Run(ctx, func(context.Context) time.Duration {
		what, left := b.next()
		if what == end {
			b.end(false)
			cancel()
		}
		return left
	}, b.triggers)
	return time.Since(start)
}

// TestBatchWindow has triggers come at certain times and wants the window to close at a
// certain time after the start. Time is synctest's: nothing waits.
func TestBatchWindow(t *testing.T) {
	t.Parallel()
	every := func(pause time.Duration, n int) (at []time.Duration) {
		for i := range n {
			at = append(at, time.Duration(i)*pause)
		}
		return at
	}
	for name, tc := range map[string]struct {
		at   []time.Duration
		same bool // every trigger has the same id
		want time.Duration
	}{
		"one trigger: the idle time later":             {at: every(0, 1), want: time.Second},
		"each new one keeps it open":                   {at: every(900*time.Millisecond, 4), want: 2700*time.Millisecond + time.Second},
		"but no longer than the longest time":          {at: every(500*time.Millisecond, 60), want: 10 * time.Second},
		"one that was seen already does not":           {at: every(900*time.Millisecond, 4), same: true, want: time.Second},
		"none at all: time to look at what is refused": {want: recheckEvery},
		"a late one opens it":                          {at: []time.Duration{3 * time.Second}, want: 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBatch(time.Second, 10*time.Second, time.Now)
				for i, at := range tc.at {
					id := "pod"
					if !tc.same {
						id = fmt.Sprint(id, i)
					}
					time.AfterFunc(at, func() { b.trigger(id) })
				}
				if took := window(t, b); took != tc.want {
					t.Errorf("closed after %s, want %s", took, tc.want)
				}
			})
		})
	}
}

// TestBatchForgetsBetweenWindows: the same pod may ask again.
func TestBatchForgetsBetweenWindows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBatch(time.Second, 10*time.Second, time.Now)
		for range 2 {
			b.trigger("pod")
			if took := window(t, b); took != time.Second {
				t.Errorf("closed after %s", took)
			}
		}
	})
}

// TestDecisionsBeforeAWindowEnds has pods come, and wants the loop to decide early at certain times, to ask whether the
// window is complete, and to end it. Times are milliseconds.
func TestDecisionsBeforeAWindowEnds(t *testing.T) {
	t.Parallel()
	const most = 12_000
	for name, c := range map[string]struct {
		pods, others []int
		shortIdle    int // milliseconds; 0: nothing is launched early
		// incomplete is until when pods are known to come.
		incomplete int
		// joining is until when a node has yet to join.
		joining int
		want    []string
	}{
		"one pod: a look at once, and the end when it is complete": {pods: []int{0}, shortIdle: 100, want: []string{"0 early", "100 complete", "100 end"}},
		"more are known to come: the question is asked again":      {pods: []int{0}, shortIdle: 100, incomplete: 250, want: []string{"0 early", "100 complete", "200 complete", "300 complete", "300 end"}},
		"they never come: the idle time is the bound":              {pods: []int{0}, shortIdle: 300, incomplete: most, want: []string{"0 early", "300 complete", "600 complete", "900 complete", "1000 end"}},
		"not without pods":                        {others: []int{0}, shortIdle: 100, want: []string{"1000 end"}},
		"a window that something else has opened": {others: []int{0}, pods: []int{300}, shortIdle: 100, want: []string{"300 early", "400 complete", "400 end"}},
		"not if nothing launches early":           {pods: []int{0}, want: []string{"1000 end"}},
		"decisions keep a distance":               {pods: []int{0, 20, 40, 60, 80, 130}, shortIdle: 100, want: []string{"0 early", "100 early", "200 early", "230 complete", "230 end"}},
		"one who guessed wrong is patient while a node has yet to join": {pods: []int{0, 500, 800}, shortIdle: 400, joining: most, want: []string{
			"0 early", "400 complete", "400 end", "500 early", "800 early", "1200 complete", "1600 complete", "1800 end",
		}},
		"and until it has": {pods: []int{0, 500}, shortIdle: 100, joining: 750, want: []string{
			"0 early", "100 complete", "100 end", "500 early", "600 complete", "700 complete", "800 complete", "800 end",
		}},
		"one who was patient stays so": {pods: []int{0, 700, 3000}, shortIdle: 600, joining: most, want: []string{
			"0 early", "600 complete", "600 end", "700 early", "1300 complete", "1700 end", "3000 early", "3600 complete", "4000 end",
		}},
		"but not for ever": {pods: []int{0, 700, 5000}, shortIdle: 600, joining: most, want: []string{
			"0 early", "600 complete", "600 end", "700 early", "1300 complete", "1700 end", "5000 early", "5600 complete", "5600 end",
		}},
		"a window without pods shows nothing of the guess": {pods: []int{0, 1900}, others: []int{700}, shortIdle: 600, joining: most, want: []string{
			"0 early", "600 complete", "600 end", "1700 end", "1900 early", "2500 complete", "2900 end",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				b := newBatch(time.Second, 10*time.Second, time.Now)
				b.shortIdle, b.patience = time.Duration(c.shortIdle)*time.Millisecond, 2*time.Second
				for i, at := range c.pods {
					time.AfterFunc(time.Duration(at)*time.Millisecond, func() { b.trigger(fmt.Sprint(podPrefix, i)) })
				}
				for i, at := range c.others {
					time.AfterFunc(time.Duration(at)*time.Millisecond, func() { b.trigger(fmt.Sprint("claim/", i)) })
				}
				ctx, cancel := context.WithTimeout(t.Context(), most*time.Millisecond)
				defer cancel()
				var got []string
				_ = loop.Run(ctx, func(context.Context) time.Duration {
					at, opened := time.Since(start).Milliseconds(), b.openedAt()
					what, pause := b.next()
					switch what {
					case nothing:
						return pause
					case early:
						got = append(got, fmt.Sprint(at, " early"))
						b.decidedEarly(0)
						return max(b.wait(), 1)
					case complete:
						got = append(got, fmt.Sprint(at, " complete"))
						if at < int64(c.incomplete) || b.isPatient() && at < int64(c.joining) {
							return max(b.wait(), 1)
						}
					case end:
					}
					if !opened.IsZero() {
						got = append(got, fmt.Sprint(at, " end"))
					}
					b.end(what == complete)
					return max(b.wait(), 1)
				}, b.triggers)
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("what happened (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestEarlyDecisionsAreBounded: a pod comes every ten milliseconds, and every decision takes forty.
func TestEarlyDecisionsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBatch(time.Second, 10*time.Second, time.Now)
		b.shortIdle = 100 * time.Millisecond
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		decisions := 0
		for i := 0; ; i++ {
			<-ticker.C
			b.trigger(fmt.Sprint(podPrefix, i))
			switch what, _ := b.next(); what {
			case early:
				decisions++
				time.Sleep(40 * time.Millisecond)
				b.decidedEarly(40 * time.Millisecond)
				continue
			case end:
				if decisions < 20 || decisions > 40 {
					t.Errorf("%d decisions in a window of ten seconds, want 20 to 40", decisions)
				}
				return
			default:
			}
		}
	})
}

// TestTheFirstDecisionIsAnnounced: others wait for it, and there need not be anything to decide.
func TestTheFirstDecisionIsAnnounced(t *testing.T) {
	t.Parallel()
	o := newObserver(t)
	begun, synced := make(chan struct{}), false
	o.Begun, o.Synced = begun, func() bool { return synced }
	o.batch = newBatch(time.Second, 10*time.Second, o.Now)
	isBegun := func() bool {
		select {
		case <-begun:
			return true
		default:
			return false
		}
	}
	for _, step := range []struct {
		what   string
		passes time.Duration
		synced bool
		want   bool
	}{
		{"not synced", 0, false, false},
		{"the first window opens", 0, true, false},
		{"it ends", time.Second, true, true},
		{"the next decision", 10 * time.Second, true, true},
	} {
		o.now, synced = o.now.Add(step.passes), step.synced
		o.Reconcile(t.Context())
		if got := isBegun(); got != step.want {
			t.Errorf("%s: begun is %v, want %v", step.what, got, step.want)
		}
	}
}
