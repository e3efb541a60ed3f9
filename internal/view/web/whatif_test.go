package web_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/dovetail-sh/dovetail/internal/testkit/story"
	"github.com/dovetail-sh/dovetail/internal/view"
	"github.com/dovetail-sh/dovetail/internal/view/web"
)

const img = "<img src=x onerror=alert(1)>"

// answerOf is what a change would do, with markup in every name.
func answerOf(steps int) *view.WhatIf {
	drift := []view.Drift{{Node: "a" + img, Pool: "general" + img, Reason: "NodePoolDrifted", Why: "budget" + img}}
	v := &view.WhatIf{
		Head: view.Head{Format: view.Format, Kind: "WhatIf", At: story.Now()}, Changes: []string{"spec.limits.cpu: 4 → 2" + img},
		Now: view.Outlook{At: story.Now(), Nodes: 3, Price: view.Price{Hourly: 1.5, SpotHourly: 0.5}}, Left: view.Outlook{Nodes: 3, Price: view.Price{Hourly: 1.4}, LeastHourly: 1, Proven: true},
		Then: view.Outlook{Nodes: 2, Price: view.Price{Hourly: 1.2}, LeastHourly: 0.9, Evictions: 7, PeakHourly: 2, Refused: 1}, Drift: drift, NoDrift: drift, Stay: drift,
		Pools: []view.Change{{Name: "general" + img, NowHourly: 1.5, LeftHourly: 1.4, ThenHourly: 1.2}}, Workloads: []view.Change{{Name: "web" + img, ThenHourly: 0.3}},
		NoPlace: []view.NoPlace{{Workload: view.Workload{Namespace: "shop", Kind: "Deployment", Name: "api" + img}, Pods: 2, Running: 1, Why: "too large" + img}}, Presumes: []string{"Prices stay." + img},
	}
	for range steps {
		v.Steps = append(v.Steps, view.WhatIfStep{
			At: story.Now().Add(90e9), DoneAt: story.Now().Add(180e9), Reason: "Drifted", Remove: []view.StepNode{{Name: "a" + img, InstanceType: "four", CapacityType: "spot"}},
			Launch: []view.StepNode{{Pool: "general" + img, InstanceType: "four", CapacityType: "spot", PriceHourly: 0.1, HasPrice: true}}, Evictions: 7, SavingHourly: 0.2,
		})
	}
	return v
}

// TestWhatIfPage asks what a change would do, and reads the answer.
func TestWhatIfPage(t *testing.T) {
	t.Parallel()
	var asked []web.Question
	h := web.WhatIfHandler(story.Now, func(_ context.Context, q *web.Question) (*view.WhatIf, error) {
		if asked = append(asked, *q); q.Spot == "no" {
			return nil, errors.New("no share" + img)
		}
		return answerOf(203), nil
	})
	body := get(h, "/whatif").Body.String()
	if len(asked) > 0 || strings.Contains(body, "with the change</th>") || strings.Contains(body, "<code>dovetail ui") {
		t.Errorf("without a question %d were asked:\n%s", len(asked), body)
	}
	w := get(h, "/whatif?spot=80%25&without=m5.*&pool=general.limits.cpu%3D2%0D%0Ageneral.weight%3D1&policy=WhenEmpty&f=kind:%20NodePool")
	if want := (web.Question{Spot: "80%", Policy: "WhenEmpty", Without: "m5.*", Settings: "general.limits.cpu=2\ngeneral.weight=1", Pools: "kind: NodePool"}); len(asked) != 1 || asked[0] != want {
		t.Errorf("asked %+v, want %+v", asked, want)
	}
	text := textOf(t, w.Body.String())
	for _, want := range []string{
		"with the change | 2 | $1.2000", "over $0.9000 | 7 | $2.0000 | 1", "-/+ | 1m30s | Drifted", "-0.2000 | 3m0s", "And 103 steps after these.", "Deployment shop/api" + img, "budget" + img,
		"dovetail whatif --spot '80%' --policy 'WhenEmpty' --without-type 'm5.*' --pool 'general.limits.cpu=2' --pool 'general.weight=1' -f pools.yaml", "Prices stay.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the answer does not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(w.Body.String(), "data-part") {
		t.Error("an open page asks again whenever the cluster changes")
	}
	if w.Code != http.StatusOK || strings.Count(w.Body.String(), `selected>WhenEmpty<`) != 1 {
		t.Errorf("status %d, the form has lost what was asked:\n%s", w.Code, text)
	}
	if text := textOf(t, get(h, "/whatif?spot=no").Body.String()); !strings.Contains(text, "There is no answer: no share"+img) {
		t.Errorf("a fault is not shown:\n%s", text)
	}
	for _, path := range []string{"/whatif?spot=no", "/whatif?spot=1"} {
		doc, err := html.Parse(get(h, path).Body)
		if err != nil {
			t.Fatal(err)
		}
		for n := range doc.Descendants() {
			if n.Type == html.ElementNode && n.Data == "img" {
				t.Errorf("%s: a name was taken for markup", path)
			}
		}
	}
}
