package disrupt

import (
	"testing"
	"time"
)

func TestNothingIsDecidedAnewWhileNothingHappens(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		m        Memory
		reported uint64
		after    time.Duration
		want     bool
	}{
		"nothing was to be done, nothing was reported": {Memory{Idle: true, IdleFor: idleMin, Reported: 7, DecidedAt: noon}, 7, 5 * time.Second, true},
		"something was reported":                       {Memory{Idle: true, IdleFor: idleMin, Reported: 7, DecidedAt: noon}, 8, 5 * time.Second, false},
		"something was done":                           {Memory{Reported: 7, DecidedAt: noon}, 7, 5 * time.Second, false},
		"time enough has passed":                       {Memory{Idle: true, IdleFor: idleMin, Reported: 7, DecidedAt: noon}, 7, idleMin, false},
		"a step is under way":                          {Memory{Idle: true, Busy: true, IdleFor: idleMin, Reported: 7, DecidedAt: noon}, 7, pauseBusy, true},
		"a step is under way for long":                 {Memory{Idle: true, Busy: true, IdleFor: idleMin, Reported: 7, DecidedAt: noon}, 7, pauseCalm, false},
		"its replacement is not there yet":             {Memory{CommandsAt: noon.Add(time.Minute), Busy: true, Initialized: 3, DecidedAt: noon}, 8, pauseBusy, true},
		"a node has come":                              {Memory{CommandsAt: noon.Add(time.Minute), Busy: true, Initialized: 2, DecidedAt: noon}, 8, pauseBusy, false},
		"and has had time enough":                      {Memory{CommandsAt: noon.Add(2 * time.Second), Busy: true, Initialized: 3, DecidedAt: noon}, 8, 2 * time.Second, false},
		"it is time to look at all again":              {Memory{CommandsAt: noon.Add(time.Minute), Busy: true, Initialized: 3, DecidedAt: noon}, 8, pauseCalm, false},
		"nothing was decided yet":                      {Memory{}, 0, 0, false},
		"consolidateAfter elapses":                     {Memory{Idle: true, IdleFor: idleMin, Reported: 7, DecidedAt: noon, ChangesAt: noon.Add(2 * time.Second)}, 7, 2 * time.Second, false},
		"consolidateAfter elapses later":               {Memory{Idle: true, IdleFor: idleMin, Reported: 7, DecidedAt: noon, ChangesAt: noon.Add(9 * time.Second)}, 7, 5 * time.Second, true},
	} {
		if got := c.m.IsIdle(Events{c.reported, 3}, noon.Add(c.after)); got != c.want {
			t.Errorf("%s: idle %v, want %v", name, got, c.want)
		}
	}
}

func TestTheNextDecisionIsWhenTimeChangesSomething(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		m    Memory
		want time.Duration
	}{
		"nothing is known":           {Memory{}, pauseCalm},
		"it is far":                  {Memory{ChangesAt: noon.Add(time.Hour)}, pauseCalm},
		"it is near":                 {Memory{ChangesAt: noon.Add(3 * time.Second)}, 3 * time.Second},
		"it is at once, or was":      {Memory{ChangesAt: noon.Add(-time.Second)}, pauseBusy},
		"and a step is under way":    {Memory{Busy: true, ChangesAt: noon.Add(3 * time.Second)}, pauseBusy},
		"there are many, one by one": {Memory{ChangesAt: noon.Add(time.Millisecond)}, pauseBusy},
	} {
		if got := c.m.Pause(noon); got != c.want {
			t.Errorf("%s: the next look is in %s, want %s", name, got, c.want)
		}
	}
}

func TestNewStepsAreLookedForAsOftenAsInACalmCluster(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		m     Memory
		after time.Duration
		want  bool
	}{
		"nothing was decided yet":             {Memory{}, 0, false},
		"nothing is under way":                {Memory{DecidedAt: noon}, pauseBusy, false},
		"a step is under way":                 {Memory{Busy: true, DecidedAt: noon}, pauseBusy, true},
		"and it is time to look again":        {Memory{Busy: true, DecidedAt: noon}, pauseCalm, false},
		"time alone has changed what matters": {Memory{Busy: true, DecidedAt: noon, ChangesAt: noon.Add(pauseBusy)}, pauseBusy, false},
	} {
		s := recall(&c.m, 0, noon.Add(c.after))
		if skips := s.search == NoSearch; s.commandsOnly != c.want || skips != c.want {
			t.Errorf("%s: only commands in progress are decided about: %v, no search is made: %v, want %v", name, s.commandsOnly, skips, c.want)
		}
	}
}

func TestTheEndOfACommandCallsForAFullDecision(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		s     scope
		under bool
		want  bool
	}{
		"all was looked at":                     {scope{search: FullSearch}, false, true},
		"only drains were":                      {scope{search: DrainSearch}, false, false},
		"consolidation was left out":            {scope{}, true, false},
		"only a step was, which is under way":   {scope{commandsOnly: true}, true, true},
		"only a step was, which has just ended": {scope{commandsOnly: true}, false, false},
	} {
		if got := c.s.sawAll(c.under); got != c.want {
			t.Errorf("%s: nothing more is to be decided: %v, want %v", name, got, c.want)
		}
	}
}

// TestIdleDecisionsComeFurtherAndFurtherApart while nothing is reported.
func TestIdleDecisionsComeFurtherAndFurtherApart(t *testing.T) {
	t.Parallel()
	var m Memory
	for i, c := range []struct {
		reported uint64
		idle     bool
		want     time.Duration
	}{
		{7, true, idleMin},
		{7, true, 2 * idleMin},
		{7, true, 4 * idleMin},
		{7, true, idleMax},
		{8, true, idleMin},
		{8, true, 2 * idleMin},
		{8, false, idleMin},
		{8, true, idleMin},
	} {
		if m.noteIdle(c.idle, c.reported); m.IdleFor != c.want {
			t.Errorf("decision %d: the next is in %s, want %s", i, m.IdleFor, c.want)
		}
	}
}
