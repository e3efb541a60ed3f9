package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/view"
	"github.com/dovetail-sh/dovetail/internal/view/web"
)

// TestThePageOfAChangeSaysWhatTheCommandSays asks both about the same cluster.
func TestThePageOfAChangeSaysWhatTheCommandSays(t *testing.T) {
	t.Parallel()
	pool, err := os.ReadFile("../../examples/kwok/1-nodepool.yaml")
	if err != nil {
		t.Fatal(err)
	}
	now := filepath.Join(t.TempDir(), "now.yaml")
	if err := os.WriteFile(now, append(pool, "\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\nspec:\n  containers: [{name: web, image: none, resources: {requests: {cpu: \"1\"}}}]\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	a := &asker{flags: whatIfFlags{snapshot: []string{now}}}
	for flags, q := range map[string]web.Question{
		"--pool=general.limits.cpu=0":              {Settings: "general.limits.cpu=0\n"},
		"--policy=WhenEmpty --spot=50%":            {Policy: "WhenEmpty", Spot: "50%"},
		"--without-type=c-* --without-type=m-1x-*": {Without: "c-*, m-1x-*"},
	} {
		var out, errs strings.Builder
		if Main(t.Context(), append(strings.Fields("whatif -o json --snapshot "+now), strings.Fields(flags)...), &out, &errs) != 0 {
			t.Fatal(&errs)
		}
		var want view.WhatIf
		if err := json.Unmarshal([]byte(out.String()), &want); err != nil {
			t.Fatal(err)
		}
		got, err := a.ask(t.Context(), &q)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(essence(&want), essence(got)); diff != "" {
			t.Errorf("%s: the page says something else (-command +page):\n%s", flags, diff)
		}
	}
	for says, q := range map[string]web.Question{
		"no share":               {Spot: "many"},
		"the YAML: there is no ": {Pools: "kind: Pod\napiVersion: v1"},
		"there are general":      {Settings: "other.limits.cpu=1"},
	} {
		if _, err := a.ask(t.Context(), &q); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want an error with %q", q, err, says)
		}
	}
	a.busy.Lock()
	if _, err := a.ask(t.Context(), &web.Question{Policy: "WhenEmpty"}); err == nil || !strings.Contains(err.Error(), "another change") {
		t.Errorf("while another is worked out: %v", err)
	}
}

// essence is an answer without the instant.
func essence(v *view.WhatIf) []any {
	return []any{v.Changes, v.Now.Nodes, v.Now.Price, v.Left.Nodes, v.Left.Price, v.Left.LeastHourly, v.Then.Nodes, v.Then.Price, v.Then.LeastHourly, v.Then.Evictions, len(v.Steps), v.Pools}
}

// TestPagesAreServedFromHereAndFromTheController asks for a page of each.
func TestPagesAreServedFromHereAndFromTheController(t *testing.T) {
	t.Parallel()
	controller := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "the controller answers "+r.URL.String()+" to "+r.Host)
	}))
	t.Cleanup(controller.Close)
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- servePages(ctx, controller.URL, func(context.Context, *web.Question) (*view.WhatIf, error) {
			return &view.WhatIf{Head: view.Head{At: time.Now()}, Changes: []string{"answered here"}}, nil
		}, write)
	}()
	line := make([]byte, 100)
	n, err := read.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	base := strings.TrimSpace(string(line[:n]))
	for path, want := range map[string]string{
		"fleet?pool=a":   "the controller answers /fleet?pool=a to " + strings.TrimPrefix(controller.URL, "http://"),
		"whatif?spot=1":  "answered here",
		"whatif/?spot=1": "the controller answers /whatif/",
	} {
		answer, err := http.Get(base + path) //nolint:noctx // it is on loopback
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: %v, %s; want %q", path, err, body, want)
		}
		_ = answer.Body.Close()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "evil.example"
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if _ = answer.Body.Close(); answer.StatusCode != http.StatusForbidden {
		t.Errorf("under another name: %s", answer.Status)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
