package disruption

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
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
		"nothing was to be done, nothing was heard": {memory{idle: true, still: stillMin, heard: 7, searchedAt: noon}, 7, 5 * time.Second, true},
		"something was heard":                       {memory{idle: true, still: stillMin, heard: 7, searchedAt: noon}, 8, 5 * time.Second, false},
		"something was done":                        {memory{heard: 7, searchedAt: noon}, 7, 5 * time.Second, false},
		"time enough has passed":                    {memory{idle: true, still: stillMin, heard: 7, searchedAt: noon}, 7, stillMin, false},
		"a step is under way":                       {memory{idle: true, busy: true, still: stillMin, heard: 7, searchedAt: noon}, 7, busy, true},
		"a step is under way for long":              {memory{idle: true, busy: true, still: stillMin, heard: 7, searchedAt: noon}, 7, calm, false},
		"its replacement is not there yet":          {memory{stepsAt: noon.Add(time.Minute), busy: true, initialised: 3, searchedAt: noon}, 8, busy, true},
		"a machine has come":                        {memory{stepsAt: noon.Add(time.Minute), busy: true, initialised: 2, searchedAt: noon}, 8, busy, false},
		"and has had time enough":                   {memory{stepsAt: noon.Add(2 * time.Second), busy: true, initialised: 3, searchedAt: noon}, 8, 2 * time.Second, false},
		"it is time to look at all again":           {memory{stepsAt: noon.Add(time.Minute), busy: true, initialised: 3, searchedAt: noon}, 8, calm, false},
		"nobody has looked yet":                     {memory{}, 0, 0, false},
		"a machine becomes quiet":                   {memory{idle: true, still: stillMin, heard: 7, searchedAt: noon, next: noon.Add(2 * time.Second)}, 7, 2 * time.Second, false},
		"a machine becomes quiet later":             {memory{idle: true, still: stillMin, heard: 7, searchedAt: noon, next: noon.Add(9 * time.Second)}, 7, 5 * time.Second, true},
	} {
		if got := c.m.isIdle(c.heard, 3, noon.Add(c.after)); got != c.want {
			t.Errorf("%s: idle %v, want %v", name, got, c.want)
		}
	}
}

func TestTheNextLookIsWhenTimeChangesSomething(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		m    memory
		want time.Duration
	}{
		"nothing is known":           {memory{}, calm},
		"it is far":                  {memory{next: noon.Add(time.Hour)}, calm},
		"it is near":                 {memory{next: noon.Add(3 * time.Second)}, 3 * time.Second},
		"it is at once, or was":      {memory{next: noon.Add(-time.Second)}, busy},
		"and a step is under way":    {memory{busy: true, next: noon.Add(3 * time.Second)}, busy},
		"there are many, one by one": {memory{next: noon.Add(time.Millisecond)}, busy},
	} {
		if got := c.m.pause(noon); got != c.want {
			t.Errorf("%s: the next look is in %s, want %s", name, got, c.want)
		}
	}
}

func TestNewStepsAreLookedForAsOftenAsInACalmCluster(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		m     memory
		after time.Duration
		want  bool
	}{
		"nobody has looked yet":               {memory{}, 0, false},
		"nothing is under way":                {memory{searchedAt: noon}, busy, false},
		"a step is under way":                 {memory{busy: true, searchedAt: noon}, busy, true},
		"and it is time to look again":        {memory{busy: true, searchedAt: noon}, calm, false},
		"time alone has changed what matters": {memory{busy: true, searchedAt: noon, next: noon.Add(busy)}, busy, false},
	} {
		var opts disrupt.Options
		c.m.recall(&opts, 0, noon.Add(c.after))
		if opts.UnderWayOnly != c.want || opts.SkipConsolidation != c.want {
			t.Errorf("%s: only what is under way is looked at: %v, consolidation is left out: %v, want %v", name, opts.UnderWayOnly, opts.SkipConsolidation, c.want)
		}
	}
}

func TestTheEndOfAStepCallsForALookAtAll(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts  disrupt.Options
		under bool
		want  bool
	}{
		"all was looked at":                     {disrupt.Options{}, false, true},
		"only drains were":                      {disrupt.Options{DrainOnly: true}, false, false},
		"consolidation was left out":            {disrupt.Options{SkipConsolidation: true}, true, false},
		"only a step was, which is under way":   {disrupt.Options{UnderWayOnly: true, SkipConsolidation: true}, true, true},
		"only a step was, which has just ended": {disrupt.Options{UnderWayOnly: true, SkipConsolidation: true}, false, false},
	} {
		if got := sawAll(&c.opts, c.under); got != c.want {
			t.Errorf("%s: nothing more is to be decided: %v, want %v", name, got, c.want)
		}
	}
}

// TestLooksInVainComeFurtherAndFurtherApart while nothing is heard.
func TestLooksInVainComeFurtherAndFurtherApart(t *testing.T) {
	t.Parallel()
	var m memory
	for i, c := range []struct {
		heard uint64
		idle  bool
		want  time.Duration
	}{
		{7, true, stillMin},
		{7, true, 2 * stillMin},
		{7, true, 4 * stillMin},
		{7, true, stillMax},
		{8, true, stillMin},
		{8, true, 2 * stillMin},
		{8, false, stillMin},
		{8, true, stillMin},
	} {
		if m.looked(c.heard, c.idle); m.still != c.want {
			t.Errorf("look %d: the next is in %s, want %s", i, m.still, c.want)
		}
	}
}
