package generate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/scenario"
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
