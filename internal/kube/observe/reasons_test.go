package observe

import (
	"testing"
	"time"
)

func TestTerminationMode(t *testing.T) {
	t.Parallel()
	zero, minute := time.Duration(0), time.Minute
	for name, c := range map[string]struct {
		grace *time.Duration
		want  string
	}{
		"without a grace period pods get all the time they need": {nil, "graceful"},
		"with one they are ended in the end":                     {&minute, "eventual"},
		"with none at all they are ended by force":               {&zero, "forceful"},
	} {
		if got := TerminationMode(c.grace); got != c.want {
			t.Errorf("%s: TerminationMode is %q, want %q", name, got, c.want)
		}
	}
}

func TestConditionLabel(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		"Ready": "ready", "DiskPressure": "disk_pressure", "ACMEBroken": "acme_broken", "KernelReady2": "kernel_ready2", "": "",
	} {
		if got := ConditionLabel(words); got != want {
			t.Errorf("ConditionLabel(%q) = %q, want %q", words, got, want)
		}
	}
}
