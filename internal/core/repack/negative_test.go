package repack

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestNothingFoundNowMayBeFoundLater launches without success, and once more for the same pods when something has
// changed.
func TestNothingFoundNowMayBeFoundLater(t *testing.T) {
	t.Parallel()
	const old, other = 0, 1
	goes := func(s *Session) {
		mark := s.Nodes.Begin()
		s.Nodes.Remove(other)
		clear(s.Nodes.unplaced)
		s.Nodes.Keep(mark)
	}
	joins := func(s *Session) {
		s.Inventory.ledger.Count(int(s.Nodes.Own(old)[0].Class), &s.Nodes.hosts[other].place, 1, 0)
	}
	for name, test := range map[string]struct {
		pool, web   string
		first, then float64 // at most, in dollars per hour
		change      func(s *Session)
		want        bool
	}{
		"nothing has":           {first: 0.1, then: 0.1},
		"it may cost less":      {first: 0.1, then: 0.05},
		"it may cost more":      {first: 0.1, then: 0.3, want: true},
		"limits leave as much":  {pool: " limit.nodes=2", first: 0.3, then: 0.3},
		"limits leave more":     {pool: " limit.nodes=2", first: 0.3, then: 0.3, change: goes, want: true},
		"another zone has one":  {web: "spread=zone:1", first: 0.3, then: 0.3, change: joins, want: true},
		"another zone has none": {web: "spread=zone:1", first: 0.3, then: 0.3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			snap, err := story.Parse(`
type four cpu=4 memory=8Gi price=0.20 zones=a
pool general` + test.pool + `
node old pool=general type=four zone=a
running web on=old count=2 cpu=1 memory=1Gi app=web ` + test.web + `
node other pool=general type=four zone=b
running db on=other cpu=1 memory=1Gi app=db`)
			if err != nil {
				t.Fatal(err)
			}
			s := NewSession(snap, model.Options{}, 1, nil)
			s.Rescheduler.Rank([]int32{}) // nobody takes pods
			s.Launcher.Remember(true)
			launch := func(limit float64) bool {
				mark := s.Nodes.Begin()
				defer s.Nodes.Undo(mark)
				s.Nodes.Remove(old)
				_, ok := s.Launcher.LaunchFor(limit)
				return ok
			}
			if launch(test.first) {
				t.Fatal("something was launched")
			}
			if test.change != nil {
				test.change(s)
			}
			if launch(test.then) != test.want {
				t.Errorf("it was launched: %t, want %t", !test.want, test.want)
			}
			if s.Launcher.Remember(false); launch(test.then) != test.want {
				t.Error("whoever does not remember comes to something else")
			}
		})
	}
}
