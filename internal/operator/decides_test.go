package operator

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
	"github.com/dovetail-sh/dovetail/internal/view/live"
)

// TestTermsAreWhatTheControllerDecidesBy asks for the settings and NodePools before and after the first
// decision. Nodes and pods are no part of the answer.
func TestTermsAreWhatTheControllerDecidesBy(t *testing.T) {
	t.Parallel()
	s := parsed(t, "--launch-price-cap=2", "--consolidation-step-max=7", "--preference-policy=Ignore", "--feature-gates=NodeRepair=true,TerminateFirstDrift=true")
	views := &live.Views{Latest: &live.Latest{}, Now: time.Now}
	ask := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		terms(s, views).ServeHTTP(w, httptest.NewRequest(http.MethodGet, TermsPath, http.NoBody))
		return w
	}
	if w := ask(); w.Code != http.StatusServiceUnavailable || w.Body.String() != live.ErrNotYet.Error()+"\n" {
		t.Errorf("before the first decision: %d %s", w.Code, w.Body)
	}
	snap, err := story.Parse("type four cpu=4 memory=8Gi price=0.20\npool general\npool batch types=four\nnode a pool=general type=four\nrunning web on=a cpu=1\npod w cpu=1")
	if err != nil {
		t.Fatal(err)
	}
	views.Latest.Provisioned(snap, nil, nil)
	w := ask()
	d, err := record.Decode(w.Body.Bytes())
	if w.Code != http.StatusOK || err != nil {
		t.Fatalf("%d, %v: %s", w.Code, err, w.Body)
	}
	if diff := cmp.Diff(s.packing(), d.Pack); diff != "" || d.Pack.PriceCap != 2 || !d.Pack.IgnorePreferences {
		t.Errorf("what is launched (-settings +answer):\n%s", diff)
	}
	if diff := cmp.Diff(s.terms(), d.Disrupt.Terms); diff != "" || d.Disrupt.Terms.StepMax != 7 {
		t.Errorf("consolidation (-settings +answer):\n%s", diff)
	}
	if !d.Disrupt.Repair.On || !d.Disrupt.TerminateFirst.Drifted || d.Disrupt.TerminateFirst.Unhealthy {
		t.Errorf("the gates are %+v", d.Disrupt)
	}
	if got := d.Snapshot; len(got.Pools) != 2 || len(got.Pools[0].Types) != 1 || got.Pools[0].Types[0].Offerings[0].PriceHourly != 0.20 || len(got.Nodes)+len(got.Pending) != 0 || !got.At.Equal(snap.At) {
		t.Errorf("the snapshot is %+v", got)
	}
}
