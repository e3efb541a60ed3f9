package disruption

import (
	"testing"
	"time"
)

func TestNothingIsDecidedAnewWhileNothingHappens(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		m     memory
		heard uint64
		after time.Duration
		want  bool
	}{
		"nothing was to be done, nothing was heard": {memory{idle: true, heard: 7, lookedAt: noon}, 7, 5 * time.Second, true},
		"something was heard":                       {memory{idle: true, heard: 7, lookedAt: noon}, 8, 5 * time.Second, false},
		"something was done":                        {memory{heard: 7, lookedAt: noon}, 7, 5 * time.Second, false},
		"time enough has passed":                    {memory{idle: true, heard: 7, lookedAt: noon}, 7, stillness, false},
		"a step is under way":                       {memory{idle: true, busy: true, heard: 7, lookedAt: noon}, 7, busy, true},
		"a step is under way for long":              {memory{idle: true, busy: true, heard: 7, lookedAt: noon}, 7, calm, false},
		"nobody has looked yet":                     {memory{}, 0, 0, false},
	} {
		if got := c.m.isIdle(c.heard, noon.Add(c.after)); got != c.want {
			t.Errorf("%s: idle %v, want %v", name, got, c.want)
		}
	}
}
