package cloudtest

import (
	"errors"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

func conditionsUnderstood(t T, h Harness) {
	p, is := h.Provider.(cloud.ConditionNoticer)
	if !is || len(p.ConditionNotices()) == 0 {
		t.Skip("the provider has no conditions that are notices")
	}
	if _, err := cloud.NewNodeNotices(p.ConditionNotices()); err != nil {
		t.Error(err)
	}
}

func classMissing(t T, h Harness) { refused(t, h, h.Missing, cloud.NoCapacity) }

func classUnready(t T, h Harness) {
	if h.Unready.Name == "" {
		t.Skip("the harness has no class that is not ready")
	}
	refused(t, h, h.Unready, cloud.ClassNotReady)
}

// refused launches with a class and expects a definite no of that kind, and nothing made.
func refused(t T, h Harness, class cloud.ClassRef, want cloud.FailureKind) {
	t.Helper()
	r := request(t, class, 0, choices(t, h))
	result := h.Provider.Launch(t.Context(), []cloud.LaunchRequest{r})[0]
	var failure *cloud.Failure
	if !errors.As(result.Err, &failure) {
		t.Fatalf("Launch with %s: error %v, want a *cloud.Failure", class, result.Err)
	}
	if failure.Kind != want || failure.Message == "" {
		t.Errorf("Launch with %s failed with kind %s and message %q, want %s and some words", class, failure.Kind, failure.Message, want)
	}
	if found := withToken(t, h.Provider, r.Token); len(found) != 0 {
		t.Errorf("a refused launch left instances: %+v", found)
	}
}
