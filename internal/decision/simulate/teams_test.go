package simulate

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/consolidate"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestTeamsAreConsolidatedApart: the pool leaves the label team open, so each node gets that
// of its pods. Two thirds of the pods ask for one of two teams, the others for none. The bound
// knows nothing of that.
func TestTeamsAreConsolidatedApart(t *testing.T) {
	t.Parallel()
	testkit.Unraced(t)
	for seed := range uint64(3) {
		snap := family{name: "teams", fill: 0.55, small: true}.generate(t, 60, seed).Snapshot(time.Unix(0, 0))
		for i := range snap.Pools {
			snap.Pools[i].Requirements = maps.Clone(snap.Pools[i].Requirements)
			snap.Pools[i].Requirements["team"] = label.Exists()
		}
		teams := []string{"", "blue", "green"}
		byConstraints, teamOf := map[*cluster.Constraints]string{}, map[cluster.PodRef]string{}
		for i := range snap.Nodes {
			for _, r := range snap.Nodes[i].Reschedulable {
				team, known := byConstraints[r.Constraints]
				if !known {
					team = teams[len(byConstraints)%3]
					byConstraints[r.Constraints] = team
					for k := range r.Constraints.Terms {
						if team != "" {
							r.Constraints.Terms[k] = r.Constraints.Terms[k].Intersect(label.Requirements{"team": label.In(team)})
						}
					}
				}
				teamOf[r.PodRef] = team
			}
		}
		c := consolidate.Search(snap, consolidate.Options{Terms: anySpot(), Pack: scenarioOptions()})
		if c.AfterHourly > 1.15*c.BoundHourly {
			t.Errorf("seed %d: %.2f $/h of %.2f are left, want at most 1.15 times %.2f", seed, c.AfterHourly, c.PriceHourly, c.BoundHourly)
		}
		for i := range c.Steps {
			for k := range c.Steps[i].Launch {
				l := &c.Steps[i].Launch[k]
				pods := slices.Clone(l.Pods)
				for _, later := range c.Steps {
					for _, j := range later.Joins {
						if j.Command == i && j.Launch == k {
							pods = append(pods, j.Pod)
						}
					}
				}
				checkTeam(t, l, pods, teamOf)
			}
		}
	}
}

// checkTeam fails where pods that a launch is for ask for another team than its node has.
func checkTeam(t *testing.T, l *plan.Launch, pods []cluster.PodRef, teamOf map[cluster.PodRef]string) {
	t.Helper()
	for _, pod := range pods {
		if team := teamOf[pod]; team != "" {
			if has, ok := l.Requirements["team"].Only(); !ok || has != team {
				t.Errorf("pod %s of team %s is meant for a node with team %s", pod, team, l.Requirements["team"])
			}
		}
	}
}
