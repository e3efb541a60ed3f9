package consolidate

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/repack"
)

// TestProgressIsWhatASumWouldBe has pods come and go, and targets be bought, and compares the
// target that is named with those of a sum over all.
func TestProgressIsWhatASumWouldBe(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		kinds := rapid.IntRange(1, 6).Draw(t, "kinds")
		worths := rapid.SliceOfN(rapid.Float64Range(0.001, 3), kinds, kinds).Draw(t, "worths")
		worth := func(kind int32) float64 { return worths[kind] }
		targets := make([]target, rapid.IntRange(1, 12).Draw(t, "goals"))
		for g := range targets {
			targets[g].host = -1
			for kind := range int32(kinds) {
				if n := rapid.Int32Range(0, 4).Draw(t, "wanted"); n > 0 {
					targets[g].want = append(targets[g].want, repack.Share{Class: kind, N: n})
					targets[g].worth += float64(n) * worth(kind)
				}
			}
		}
		y := newProgress(targets, kinds, worth)
		for range rapid.IntRange(1, 20).Draw(t, "changes") {
			switch g := rapid.IntRange(0, len(targets)-1).Draw(t, "goal"); rapid.IntRange(0, 5).Draw(t, "change") {
			case 0:
				y.clear()
			case 1:
				targets[g].host, y.closed[g] = 1, true
			case 2: // a step is final: the next begins with no pods
				y.drop(targets)
				y.clear()
			default:
				y.set(rapid.Int32Range(0, int32(kinds)-1).Draw(t, "kind"), rapid.Int32Range(0, 9).Draw(t, "pods"))
			}
			share := func(g int) float64 {
				sum := 0.0
				for _, sh := range targets[g].want {
					sum += worth(sh.Class) * float64(min(sh.N, y.pods[sh.Class]))
				}
				return sum / targets[g].worth
			}
			most := 0.0
			for g := range targets {
				if targets[g].host < 0 {
					most = max(most, share(g))
				}
			}
			switch got := y.fullest(); {
			case got < 0 && most > 0:
				t.Fatalf("no goal is named, one would be filled to %v", most)
			case got >= 0 && (targets[got].host >= 0 || share(got) < most-fillMin):
				t.Fatalf("goal %d is named, bought %v, filled to %v, where one would be to %v", got, targets[got].host >= 0, share(got), most)
			}
		}
	})
}
