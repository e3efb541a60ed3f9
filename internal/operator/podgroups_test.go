package operator

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestPodGroupsAreWatchedWhenTheyAreServed: the API server is asked once a minute until then, and
// that it does not serve them is no failure.
func TestPodGroupsAreWatchedWhenTheyAreServed(t *testing.T) {
	t.Parallel()
	missing := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "scheduling.k8s.io", Kind: "PodGroup"}}
	for name, c := range map[string]struct {
		answers []error // the last one for good
		asked   int     // within ten minutes
	}{
		"served from the start": {[]error{nil}, 1},
		"served later":          {[]error{missing, missing, nil}, 3},
		"after a failure":       {[]error{errors.New("no answer"), nil}, 2},
		"never":                 {[]error{missing}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				g := &podGroups{log: slog.New(slog.DiscardHandler), feed: func(context.Context) error {
					asked++
					return c.answers[min(asked, len(c.answers))-1]
				}}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute-time.Second)
				defer cancel()
				if err := g.Start(ctx); err != nil || asked != c.asked {
					t.Errorf("asked %d times, want %d; error %v", asked, c.asked, err)
				}
			})
		})
	}
}
