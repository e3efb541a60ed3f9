package hostile_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/testkit/hostile"
)

// lines returns objects as they are sent, their families and status with them.
func lines(t *testing.T, objects []hostile.Object) []string {
	t.Helper()
	var out []string
	for _, o := range objects {
		text, err := json.Marshal([]any{o.Family, o.DeepCopy().Object, o.Status})
		if err != nil {
			t.Fatalf("%s of %s cannot be sent: %v", o.GetName(), o.Family, err)
		}
		out = append(out, string(text))
	}
	return out
}

func TestTheSameSeedMakesTheSameObjects(t *testing.T) {
	t.Parallel()
	families := len(hostile.Families())
	for seed := range uint64(20) {
		options := hostile.Options{Seed: seed, Objects: 3 * families, Most: 30}
		want := lines(t, hostile.Generate(options))
		if diff := cmp.Diff(want, lines(t, hostile.Generate(options))); diff != "" {
			t.Fatalf("seed %d, the second time (-first +second):\n%s", seed, diff)
		}
		options.Objects = families
		if diff := cmp.Diff(want[:families], lines(t, hostile.Generate(options))); diff != "" {
			t.Errorf("seed %d, fewer (-want +got):\n%s", seed, diff)
		}
		if slices.Equal(want, lines(t, hostile.Generate(hostile.Options{Seed: seed + 1, Objects: 3 * families, Most: 30}))) {
			t.Errorf("seeds %d and %d make the same", seed, seed+1)
		}
	}
}

func TestNoTwoObjectsHaveOneName(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	of := map[string]int{}
	for _, o := range append(hostile.Setup(), hostile.Generate(hostile.Options{Objects: 500})...) {
		id := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
		if other, ok := seen[id]; ok {
			t.Errorf("%s is of %s and of %s", id, other, o.Family)
		}
		seen[id] = o.Family
		of[o.Family]++
	}
	for _, name := range hostile.Families() {
		if of[name] == 0 {
			t.Errorf("none is of %s", name)
		}
	}
}
