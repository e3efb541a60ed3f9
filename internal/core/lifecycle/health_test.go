package lifecycle

import "testing"

func TestHealthFollowsTheLastFourLaunches(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before   Status // the condition before a restart
		launches string // one letter each: r registered, f failed
		want     Status
	}{
		"nothing is known before the first launch":            {Unknown, "", Unknown},
		"one success is healthy":                              {Unknown, "r", True},
		"one failure says nothing yet":                        {Unknown, "f", Unknown},
		"two failures are unhealthy":                          {Unknown, "ff", False},
		"one failure does not end health":                     {Unknown, "rf", True},
		"two failures among four end it":                      {Unknown, "frrf", False},
		"a failure is forgotten after four launches":          {Unknown, "frrrrf", True},
		"a success does not make two failures good":           {Unknown, "ffr", False},
		"three successes do":                                  {Unknown, "ffrrr", True},
		"a healthy pool stays so over a restart":              {True, "", True},
		"one failure after a restart does not end its health": {True, "f", True},
		"an unhealthy pool stays so over a restart":           {False, "", False},
		"it is healthy again after three successes":           {False, "rrr", True},
		"but not after two":                                   {False, "rr", False},
	} {
		h := HealthFrom(c.before)
		for _, l := range c.launches {
			h = h.After(l == 'r')
		}
		if got := h.Status(); got != c.want {
			t.Errorf("%s: %s then %q is %s, want %s", name, c.before, c.launches, got, c.want)
		}
	}
}
