package cloudtest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
)

func TestCheckGivesTheVerdictThatTestingWould(t *testing.T) {
	t.Parallel()
	var cleaned []string
	for name, c := range map[string]struct {
		test func(t cloudtest.T)
		want cloudtest.Result
	}{
		"passes":             {func(cloudtest.T) {}, cloudtest.Result{Verdict: cloudtest.Passed}},
		"fails and goes on":  {func(t cloudtest.T) { t.Errorf("one"); t.Error("two", 2) }, cloudtest.Result{Verdict: cloudtest.Failed, Why: []string{"one", "two 2"}}},
		"fails and ends":     {func(t cloudtest.T) { t.Fatalf("%d", 1); t.Error("not reached") }, cloudtest.Result{Verdict: cloudtest.Failed, Why: []string{"1"}}},
		"is skipped":         {func(t cloudtest.T) { t.Skip("no class"); t.Error("not reached") }, cloudtest.Result{Verdict: cloudtest.Skipped, Why: []string{"no class"}}},
		"panics":             {func(cloudtest.T) { panic("oh") }, cloudtest.Result{Verdict: cloudtest.Failed, Why: []string{"panic: oh"}}},
		"fails when cleaned": {func(t cloudtest.T) { t.Cleanup(func() { t.Fatal("left over") }) }, cloudtest.Result{Verdict: cloudtest.Failed, Why: []string{"left over"}}},
		"cleans up, the last first, after its context": {func(t cloudtest.T) {
			t.Cleanup(func() { cleaned = append(cleaned, "first") })
			t.Cleanup(func() {
				if t.Context().Err() != nil {
					cleaned = append(cleaned, "second")
				}
			})
			t.Fatal("x")
		}, cloudtest.Result{Verdict: cloudtest.Failed, Why: []string{"x"}}},
	} {
		c.want.Name = name
		if diff := cmp.Diff(c.want, cloudtest.Check(t.Context(), name, c.test)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff([]string{"second", "first"}, cleaned); diff != "" {
		t.Errorf("cleaned up (-want +got):\n%s", diff)
	}
}
