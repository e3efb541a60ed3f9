package savings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/decision/simulate"
)

func stillClock() simulate.Clock {
	return simulate.Clock{Now: start, CPU: func() time.Duration { return 0 }}
}

func report(t *testing.T, objects []client.Object, change func(*Input)) *Report {
	t.Helper()
	in := Input{Objects: objects, Cluster: "shop", At: start(), Clock: stillClock()}
	if change != nil {
		change(&in)
	}
	r, err := Make(in)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestFiguresAddUp works the figures out again: from the prices of the nodes, and from what the steps say.
func TestFiguresAddUp(t *testing.T) {
	t.Parallel()
	r := report(t, shop(), nil)
	price := r.Now
	for i := range r.Steps {
		s := &r.Steps[i]
		for _, n := range s.Remove {
			price -= n.Price
		}
		for _, n := range s.Launch {
			price += n.Price
		}
		if math.Abs(price-s.After) > 1e-6 {
			t.Errorf("after step %d the nodes cost %.4f, the report says %.4f", i+1, price, s.After)
		}
	}
	// 8 m5.2xlarge on demand at 0.384, 3 m5.4xlarge spot.
	onDemand := 0.0
	for _, l := range r.Types {
		if l.Name == "m5.2xlarge on-demand" {
			onDemand = l.Now
		}
	}
	if math.Abs(onDemand-8*0.384) > 1e-9 || math.Abs(price-r.After) > 1e-6 || r.After >= r.Now || r.Bound > r.After || r.BoundKept < r.Bound {
		t.Errorf("8 m5.2xlarge cost %.4f; now %.4f, after %.4f (steps: %.4f), least %.4f and %.4f", onDemand, r.Now, r.After, price, r.BoundKept, r.Bound)
	}
	for name, lines := range map[string][]Line{"types": r.Types, "pools": r.Pools, "workloads": r.Workloads} {
		now, after := 0.0, 0.0
		for _, l := range lines {
			now, after = now+l.Now, after+l.After
		}
		if math.Abs(now-r.Now) > 1e-6 || math.Abs(after-r.After) > 1e-6 {
			t.Errorf("%s: %.4f now and %.4f after, in all %.4f and %.4f", name, now, after, r.Now, r.After)
		}
	}
	if len(r.Proposed) != 2 || r.Dropped != "" {
		t.Errorf("%d NodePools are proposed; dropped: %q", len(r.Proposed), r.Dropped)
	}
}

// TestNothingThatMustStayMoves looks at each eviction.
func TestNothingThatMustStayMoves(t *testing.T) {
	t.Parallel()
	objects := shop()
	held, holders := map[string]bool{}, map[string]bool{}
	for _, o := range objects {
		if p, is := o.(*corev1.Pod); is && (p.Labels["app"] == "ledger" || p.Labels["app"] == "keep") {
			held[p.Namespace+"/"+p.Name], holders[p.Spec.NodeName] = true, true
		}
	}
	r := report(t, objects, nil)
	for _, s := range r.Steps {
		for _, pod := range s.Evict {
			if held[pod] {
				t.Errorf("%s is evicted", pod)
			}
		}
		for _, n := range s.Remove {
			if holders[n.Name] {
				t.Errorf("%s is removed", n.Name)
			}
		}
	}
	alone := map[string]string{}
	for _, c := range r.Alone {
		for _, n := range c.Nodes {
			alone[n] = c.Why
		}
	}
	for n := range holders {
		if alone[n] == "" {
			t.Errorf("nothing is said of %s, which must stay", n)
		}
	}
	if why := alone["other-0000"]; !strings.Contains(why, "no price is known for instance type e2-standard-4") {
		t.Errorf("of the node without a price it is said: %q", why)
	}
}

// TestOwnTypes keeps to the instance types that there are.
func TestOwnTypes(t *testing.T) {
	t.Parallel()
	r := report(t, shop(), func(in *Input) { in.Terms.OwnTypes = true })
	for _, s := range r.Steps {
		for _, n := range s.Launch {
			if n.Type != "m5.2xlarge" && n.Type != "m5.4xlarge" {
				t.Errorf("%s is launched", n.Type)
			}
		}
	}
	spot := report(t, shop(), func(in *Input) { in.Terms.Spot = true })
	if spot.After >= r.After {
		t.Errorf("with spot %.4f, with the own types on demand %.4f", spot.After, r.After)
	}
}

// TestThePageIsSafe has names that a page would run if it did not escape them.
func TestThePageIsSafe(t *testing.T) {
	t.Parallel()
	const evil = `<img src=x onerror=alert(1)>`
	objects := shop()
	for _, o := range objects {
		switch o := o.(type) {
		case *corev1.Pod:
			o.OwnerReferences[0].Name = evil
			o.Name += evil
		case *corev1.Node:
			if o.Name == "other-0000" {
				o.Labels[corev1.LabelInstanceTypeStable] = evil + "\x1b[2J"
			}
		}
	}
	r := report(t, objects, func(in *Input) { in.Cluster = evil + "\x1b[2J" })
	var page bytes.Buffer
	if err := r.WritePage(&page); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	if strings.Contains(text, "<img") || !strings.Contains(text, "&lt;img") {
		t.Error("the page has a name that is not escaped")
	}
	for _, outside := range []string{"<script", "http://", "https://", "url(", "@import", "src=", "<link", "<iframe", "<form"} {
		if strings.Contains(strings.ReplaceAll(text, "img src=x", ""), outside) {
			t.Errorf("the page has %s", outside)
		}
	}
	if table := r.Table(); strings.ContainsRune(table, 0x1b) {
		t.Error("the table has an escape character")
	}
}

// TestRedact has no name that people chose anywhere, and the same figures.
func TestRedact(t *testing.T) {
	t.Parallel()
	plain, r := report(t, shop(), nil), report(t, shop(), func(in *Input) { in.Redact = true })
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	if err := r.WritePage(&page); err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"json": string(b), "table": r.Table(), "page": page.String()} {
		for _, secret := range []string{"shop", "ledger", "web", "import", "batch", "team", "api-", "other-0"} {
			if strings.Contains(text, secret) {
				t.Errorf("the %s says %q", what, secret)
			}
		}
	}
	if math.Abs(plain.After-r.After) > 1e-9 || math.Abs(plain.Bound-r.Bound) > 1e-9 || len(plain.Steps) != len(r.Steps) || plain.Evictions != r.Evictions {
		t.Errorf("redacted: %.4f with %d steps, else %.4f with %d", r.After, len(r.Steps), plain.After, len(plain.Steps))
	}
}

// TestARiseIsACost writes what a saving below zero is.
func TestARiseIsACost(t *testing.T) {
	t.Parallel()
	if got := (&Report{Now: 2, After: 3}).Saving(); got != "costs 50.0 % more" {
		t.Errorf("a rise reads %q", got)
	}
	if got := (&Report{}).Saving(); got != "saves nothing" {
		t.Errorf("no change reads %q", got)
	}
}

// TestNoPrice says why there is no answer.
func TestNoPrice(t *testing.T) {
	t.Parallel()
	g := nodeGroup{name: "gke", typ: "e2-standard-4", capacity: "ON_DEMAND", cpu: 4, memGiB: 16, nodes: 2}
	_, err := Make(Input{Objects: groupsCluster([]nodeGroup{g}, nil, 1), At: start(), Clock: stillClock()})
	if err == nil || !strings.Contains(err.Error(), "nodes: 2, no price is known for instance type e2-standard-4") {
		t.Errorf("the error is %v", err)
	}
}

// TestTheCheckerAgrees has random clusters: the checker of plans objects to nothing that the search found, though it
// knows nothing of the search.
func TestTheCheckerAgrees(t *testing.T) {
	t.Parallel()
	seeds := uint64(40)
	if testing.Short() {
		seeds = 6
	}
	steps := 0
	for seed := range seeds {
		r := report(t, randomCluster(seed+1), nil)
		if steps += len(r.Steps); r.Dropped != "" {
			t.Errorf("seed %d: %s", seed+1, r.Dropped)
		}
	}
	if steps == 0 {
		t.Error("no cluster had a step")
	}
}

// randomCluster returns a cluster of some groups and workloads with rules of all kinds.
func randomCluster(seed uint64) []client.Object {
	random := rand.New(rand.NewPCG(seed, 1))
	var groups []nodeGroup
	for i, typ := range []string{"m5.2xlarge", "c5.2xlarge", "r5.2xlarge"} {
		groups = append(groups, nodeGroup{
			name: typ[:2], typ: typ, capacity: []string{"ON_DEMAND", "SPOT"}[random.IntN(2)], cpu: 8, memGiB: []int64{32, 16, 64}[i], nodes: 1 + random.IntN(8),
			labels: map[string]string{"team": []string{"a", "b"}[random.IntN(2)]}, taint: []string{"", "", "own"}[random.IntN(3)],
		})
	}
	var workloads []workload
	for i := range 3 + random.IntN(8) {
		w := workload{
			namespace: "shop", name: fmt.Sprintf("w%d", i), pods: 1 + random.IntN(25), cpuMilli: int64(100 + 100*random.IntN(20)), memMiB: int64(256 << random.IntN(5)),
			spread: random.IntN(3) == 0, apart: random.IntN(4) == 0, allowed: int32(random.IntN(6) - 2), held: random.IntN(6) == 0, tolerates: []string{"", "own"}[random.IntN(2)],
		}
		if random.IntN(3) == 0 {
			w.selector = map[string]string{"team": []string{"a", "b"}[random.IntN(2)]}
		}
		workloads = append(workloads, w)
	}
	return groupsCluster(groups, workloads, seed)
}
