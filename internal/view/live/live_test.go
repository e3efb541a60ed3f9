package live_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
	"github.com/dovetail-sh/dovetail/internal/view"
	"github.com/dovetail-sh/dovetail/internal/view/live"
)

// counting is a mirror that counts how often a view is made.
type counting struct{ asked atomic.Int64 }

func (c *counting) Shortages() []catalog.Shortage {
	c.asked.Add(1)
	return nil
}

func (c *counting) BudgetChanges() map[string][]time.Time { return nil }

func (c *counting) BudgetSchedule(string) view.BudgetSchedule { return nil }

func parse(t *testing.T, text string) *cluster.Snapshot {
	t.Helper()
	snap, err := story.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

const cluster1 = "type four cpu=4 memory=8Gi price=0.20\npool general\nnode a pool=general type=four\nrunning web on=a cpu=1\npod w cpu=99"

func TestViewsAreMadeOnceASecondAndOnlyForReaders(t *testing.T) {
	t.Parallel()
	m, k, now := &counting{}, &live.Latest{}, story.Now()
	views := &live.Views{Latest: k, Now: func() time.Time { return now }}
	k.Begin(m)
	if _, err := views.Of("overview", ""); !errors.Is(err, live.ErrNotYet) || live.Status(err) != http.StatusServiceUnavailable {
		t.Errorf("before the first decision: %v", err)
	}
	snap := parse(t, cluster1)
	k.Provisioned(snap, []plan.Refusal{{Pod: snap.Pending[0].PodRef, Why: verdict.Of(verdict.TooLarge, "", "x")}}, nil)
	k.Disrupted(snap, &plan.Disruption{}, &disrupt.Memory{}, errors.New("conflict"))
	if m.asked.Load() != 0 {
		t.Errorf("views were made %d times with nobody asking", m.asked.Load())
	}
	for range 10 {
		for _, name := range append(live.Names(), "node/a") {
			if _, err := views.Of(name, ""); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if m.asked.Load() != 1 {
		t.Errorf("views were made %d times within a second", m.asked.Load())
	}
	later := *snap
	later.At = snap.At.Add(time.Second)
	k.Provisioned(&later, nil, nil)
	if v, err := views.Of("overview", ""); err != nil || v.(view.Overview).Pending.Refused != 1 || len(v.(view.Overview).Health.Findings) != 2 {
		t.Errorf("within the second: %+v, %v", v, err)
	}
	now = now.Add(time.Second)
	if v, err := views.Of("overview", ""); err != nil || v.(view.Overview).Pending.Refused != 0 || !v.(view.Overview).At.Equal(later.At) || m.asked.Load() != 2 {
		t.Errorf("a second later: %+v, %v, made %d times", v, err, m.asked.Load())
	}
}

func TestVerdictsOfEarlierDecisionsHoldUntilAllIsSearched(t *testing.T) {
	t.Parallel()
	k, snap := &live.Latest{}, parse(t, cluster1)
	blocked := &plan.Disruption{Blocked: []verdict.Verdict{verdict.Of(verdict.NoReplacement, "a", "x"), verdict.Of(verdict.NoReplacement, "gone", "x")}}
	k.Disrupted(snap, blocked, &disrupt.Memory{Search: disrupt.FullSearch}, nil)
	first := k.State()
	if len(first.Stays) != 1 || first.Stays["a"].Why.Reason != verdict.NoReplacement {
		t.Errorf("stays %v", first.Stays)
	}
	k.Disrupted(snap, &plan.Disruption{}, &disrupt.Memory{Search: disrupt.ChangedSearch}, nil)
	if len(k.State().Stays) != 1 {
		t.Error("a search of some nodes makes the verdict about another be forgotten")
	}
	k.Disrupted(snap, &plan.Disruption{}, &disrupt.Memory{Search: disrupt.FullSearch}, nil)
	if len(k.State().Stays) != 0 || len(first.Stays) != 1 {
		t.Errorf("a search of all nodes leaves %v; the first state has %v", k.State().Stays, first.Stays)
	}
	k.Begin(nil)
	if k.State() != nil {
		t.Error("a new term begins with what the last one knew")
	}
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	k, snap := &live.Latest{}, parse(t, cluster1)
	h := (&live.Views{Latest: k, Now: story.Now}).Handler()
	ask := func(method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, live.Path+path, http.NoBody))
		return w
	}
	if w := ask(http.MethodGet, "/overview"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("before the first decision: %d", w.Code)
	}
	k.Provisioned(snap, nil, nil)
	for path, want := range map[string]int{
		"/overview": 200, "/fleet": 200, "/cost?by=workload": 200, "/cost?by=label:app": 200, "/cost?by=x": 400, "/node/a": 200, "/node/b": 404, "/nonsense": 404,
	} {
		w := ask(http.MethodGet, path)
		if w.Code != want {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		var head view.Head
		if w.Code == http.StatusOK && (json.Unmarshal(w.Body.Bytes(), &head) != nil || head.Format != view.Format || !head.At.Equal(snap.At) || w.Header().Get("Content-Type") != "application/json") {
			t.Errorf("%s: %s", path, w.Body)
		}
	}
	if w := ask(http.MethodPost, "/overview"); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}
