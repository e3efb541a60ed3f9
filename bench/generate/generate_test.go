package generate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/core/consolidate"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

// TestFamilies: every family has the pods asked for, is the same twice, and Dovetail
// finds a place for every pod that the judge accepts.
func TestFamilies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := WriteCatalog(dir); err != nil {
		t.Fatal(err)
	}
	for _, f := range Families() {
		for _, pods := range []int{1, 100, 1000} {
			t.Run(f.Scenario(pods, 1).Name, func(t *testing.T) {
				t.Parallel()
				if diff := cmp.Diff(f.Scenario(pods, 1), f.Scenario(pods, 1)); diff != "" {
					t.Errorf("the same seed makes another scenario:\n%s", diff)
				}
				path, err := Write(dir, f, pods, 1)
				if err != nil {
					t.Fatal(err)
				}
				s, err := scenario.Read(path)
				if err != nil {
					t.Fatal(err)
				}
				snap := s.Snapshot(time.Unix(0, 0))
				if len(snap.Pending) != pods {
					t.Errorf("%d pods are pending, want %d", len(snap.Pending), pods)
				}
				p := pack.Solve(snap, pack.Options{BuyableBinds: true})
				if len(p.Refusals) > 0 {
					t.Errorf("%d pods are refused, the first: %v", len(p.Refusals), p.Refusals[0])
				}
				file, err := scenario.Answer(s.Name, snap, &p)
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range scenario.Check(s, file).Violations {
					t.Error(v)
				}
			})
		}
	}
}

// TestNodes: the same seed makes the same nodes, and there is something to be saved by steps that
// the judge accepts.
func TestNodes(t *testing.T) {
	t.Parallel()
	for want, write := range map[int]func(dir string) (string, error){
		100: func(dir string) (string, error) { return WriteNodes(dir, 100, 1) },
		300: func(dir string) (string, error) { return WriteRecreated(dir, 1) },
	} {
		checkNodes(t, want, write)
	}
}

func checkNodes(t *testing.T, want int, write func(dir string) (string, error)) {
	t.Helper()
	dir := t.TempDir()
	if err := WriteCatalog(dir); err != nil {
		t.Fatal(err)
	}
	var both [2]*scenario.Scenario
	for i := range both {
		path, err := write(dir)
		if err != nil {
			t.Fatal(err)
		}
		if both[i], err = scenario.Read(path); err != nil {
			t.Fatal(err)
		}
	}
	s := both[0]
	if diff := cmp.Diff(s.Nodes, both[1].Nodes); diff != "" || len(s.Nodes) != want {
		t.Errorf("%d nodes; the same seed makes other ones:\n%s", len(s.Nodes), diff)
	}
	snap := s.Snapshot(time.Unix(0, 0))
	c := consolidate.Search(snap, consolidate.Options{Pack: pack.Options{BuyableBinds: true}})
	file, err := scenario.Steps(s.Name, snap, c.Steps)
	if err != nil {
		t.Fatal(err)
	}
	file.PricePerHour = c.AfterHourly
	r := scenario.CheckSteps(s, file)
	if len(r.Violations) > 0 || r.PricePerHour > 0.8*c.PriceHourly {
		t.Errorf("from %.2f to %.2f $/h: %v", c.PriceHourly, r.PricePerHour, r.Violations)
	}
	if after := s.After(file); len(after.Nodes) != r.Nodes {
		t.Errorf("%d nodes are left, the judge says %d", len(after.Nodes), r.Nodes)
	}
}

// TestWeek: the same seed makes the same week, more pods ask by day than by night, and requests of
// some workloads change.
func TestWeek(t *testing.T) {
	t.Parallel()
	cpus := func(w *Week, step int) (sum int64) {
		count, groups := w.Pods(step)
		for g := range groups {
			sum += int64(count[g]) * groups[g].CPU
		}
		return sum
	}
	w, again := NewWeek(1), NewWeek(1)
	for step := range WeekSteps {
		if cpus(w, step) != cpus(again, step) {
			t.Fatalf("half hour %d differs", step)
		}
	}
	night, day, weekend := cpus(w, 4), cpus(w, 28), cpus(w, 5*48+28)
	if night*2 > day || weekend >= day || night <= 0 {
		t.Errorf("millicores: %d by night, %d by day, %d at the weekend", night, day, weekend)
	}
}
