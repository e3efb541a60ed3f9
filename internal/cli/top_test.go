package cli

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
	"github.com/dovetail-sh/dovetail/internal/tui"
	"github.com/dovetail-sh/dovetail/internal/view"
	"github.com/dovetail-sh/dovetail/internal/view/live"
)

func TestTopIsCalledWrongly(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]struct {
		status int
		says   string
	}{
		"top":                                 {1, "dovetail status, nodes"},
		"top x":                               {2, "x"},
		"top --session a --live":              {2, "nothing else is read or recorded"},
		"top --session a --journal b":         {2, "--journal shows a file"},
		"top --journal b --live":              {2, "--journal shows a file"},
		"ui --journal b --address here":       {2, "--journal shows a file"},
		"ui --journal /there/is/none":         {1, "read journal: stat /there/is/none"},
		"top --session a --record b":          {2, "nothing else is read or recorded"},
		"top --live --address localhost:1":    {2, "--live asks no controller"},
		"top --columns name,a":                {2, "--columns: there is no column \"a\"; there are name, pool"},
		"top --journal b --cluster-api-url x": {2, "--cluster-api-url has no effect without --live"},
		"top --live --cluster-api-token x":    {2, "--cluster-api-token, --cluster-api-certificate-authority-data and --cluster-api-skip-tls-verify need --cluster-api-url"},
		"top --session a --kubeconfig there":  {2, "nothing else is read or recorded"},
	} {
		var out strings.Builder
		if got := Main(t.Context(), strings.Fields(line), &out, &out); got != want.status || !strings.Contains(out.String(), want.says) {
			t.Errorf("dovetail %s: status %d, want %d and %q:\n%s", line, got, want.status, want.says, &out)
		}
	}
}

// TestTopFindsAnotherController: all parts are asked for, and after one that is on standby the address is
// looked for again.
func TestTopFindsAnotherController(t *testing.T) {
	t.Parallel()
	snap, err := story.Parse("type four cpu=4 memory=8Gi price=0.20\npool general\nnode a pool=general type=four")
	if err != nil {
		t.Fatal(err)
	}
	latest := &live.Latest{}
	latest.Provisioned(snap, nil, nil)
	mux := http.NewServeMux()
	mux.Handle(live.Path+"/", (&live.Views{Latest: latest, Now: story.Now}).Handler())
	mux.HandleFunc(journal.Path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"decisions":[{"id":7}]}`)) })
	standby := true
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if standby {
			http.Error(w, "this replica is on standby", http.StatusMisdirectedRequest)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	s := &controllerSource{flags: controllerFlags{address: srv.URL}, ctx: t.Context()}
	if err := s.Fill(t.Context(), "overview", "", &view.Overview{}); err == nil || !strings.Contains(err.Error(), "on standby") || s.address != "" || s.reached() {
		t.Errorf("on standby: %v, address %q", err, s.address)
	}
	standby = false
	var fleet view.Fleet
	if err := s.Fill(t.Context(), "fleet", "", &fleet); err != nil || len(fleet.Pools) != 1 || s.Name() != srv.URL {
		t.Errorf("the fleet: %v, %+v from %s", err, fleet, s.Name())
	}
	var cost view.Cost
	if err := s.Fill(t.Context(), "cost", view.ByWorkload, &cost); err != nil || cost.By != view.ByWorkload {
		t.Errorf("the cost: %v, by %s", err, cost.By)
	}
	var decisions journal.Listing
	if err := s.Fill(t.Context(), tui.PartDecisions, "", &decisions); err != nil || len(decisions.Decisions) != 1 {
		t.Errorf("the decisions: %v, %+v", err, decisions)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Fill(gone, "fleet", "", &fleet); err == nil || s.address == "" {
		t.Errorf("a question that is given up: %v; the address is forgotten: %t", err, s.address == "")
	}
}
