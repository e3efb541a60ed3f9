// Package session makes a cluster to look at, of any size, and lets it change: what pages are tested and
// photographed with. It is the same each time.
package session

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
	"github.com/dovetail-sh/dovetail/internal/view"
	"github.com/dovetail-sh/dovetail/internal/view/live"
)

// head has what sizes have in common.
const head = `
type c7g.xlarge cpu=4 memory=8Gi price=0.145 spot=0.058 zones=us-east-1a,us-east-1b,us-east-1c
type c7g.2xlarge cpu=8 memory=16Gi price=0.29 spot=0.116 zones=us-east-1a,us-east-1b,us-east-1c short=us-east-1b/spot
type m7g.4xlarge cpu=16 memory=64Gi price=0.6528 spot=0.261 zones=us-east-1a,us-east-1b,us-east-1c
type r7i.2xlarge cpu=8 memory=64Gi price=0.5292 zones=us-east-1a,us-east-1b,us-east-1c
pool general limit.cpu=100000 after=30s
pool batch limit.cpu=40000 after=Never
pool legacy limit.cpu=64 budget=0 unready=its_node_class_is_not_ready types=r7i.2xlarge
pdb ledger allowed=0
`

// apps is how many workloads there are.
const apps = 60

// Session is a cluster that changes.
type Session struct {
	Latest *live.Latest
	snap   *cluster.Snapshot
	random *rand.Rand
	at     time.Time
}

// New returns a cluster of so many nodes with 20 pods each, after a decision about it.
func New(tb testing.TB, nodes int) *Session {
	tb.Helper()
	s := &Session{Latest: &live.Latest{}, random: rand.New(rand.NewPCG(1, 2)), at: story.Now()} //nolint:gosec // the same each time
	var text strings.Builder
	text.WriteString(head)
	for i := range nodes {
		s.node(&text, i)
	}
	text.WriteString("node ip-172-16-0-9 cpu=4 memory=16Gi\nrunning coredns on=ip-172-16-0-9 cpu=100m memory=70Mi count=2 app=coredns\n")
	text.WriteString("pod ml-train cpu=96 memory=700Gi count=3 app=ml-train\npod report cpu=2 select=zone:us-east-1f app=report\n")
	snap, err := story.Parse(text.String())
	if err != nil {
		tb.Fatal(err)
	}
	s.name(snap)
	s.snap = snap
	s.Latest.Begin(nothing{})
	s.Decide()
	return s
}

func (s *Session) node(text *strings.Builder, i int) {
	pool, more := "general", ""
	switch {
	case i%7 == 0:
		pool = "batch"
	case i%53 == 1:
		pool, more = "legacy", " drifted=NodePoolDrifted expires=5h"
	case i%41 == 2:
		more = " last-pod-event=10s"
	case i%97 == 3:
		more = " deleting"
	case i%89 == 4:
		more = " starting"
	}
	kind := []string{"c7g.xlarge", "c7g.2xlarge", "m7g.4xlarge"}[s.random.IntN(3)]
	capacity := []string{"spot", "spot", "on-demand"}[s.random.IntN(3)]
	if pool == "legacy" {
		kind, capacity = "r7i.2xlarge", "on-demand"
	}
	cpu := map[string]int{"c7g.xlarge": 4000, "c7g.2xlarge": 8000, "m7g.4xlarge": 16000, "r7i.2xlarge": 8000}[kind]
	name := fmt.Sprintf("ip-10-%d-%d-%d", i/65536, i/256%256, i%256)
	fmt.Fprintf(text, "node %s pool=%s type=%s capacity=%s zone=us-east-1%c age=%dm%s\n", name, pool, kind, capacity, 'a'+rune(i%3), 3+s.random.IntN(40000), more)
	size := map[int]int{4000: 0, 8000: 1, 16000: 2}[cpu] // apps that are as large as such nodes want
	for k := range 6 {
		app := size + 3*s.random.IntN(apps/3)
		rules := ""
		if app == 7 {
			rules = " pdb=ledger"
		}
		each := cpu * (35 + app) / 100 / 20 // all pods of an app ask for the same
		fmt.Fprintf(text, "running %s%d on=%s count=%d cpu=%dm memory=%dMi app=%[1]s%[2]d%[7]s\n", []string{"api-", "web-", "queue-", "ledger-"}[app%4], app, name, []int{3, 3, 3, 3, 4, 4}[k], each, 2*each, rules)
	}
}

// name gives pods the names that a Deployment's have, and those of one the same constraints, as the mirror does.
func (s *Session) name(snap *cluster.Snapshot) {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	shared := map[string]*cluster.Constraints{}
	share := func(c **cluster.Constraints) {
		app := (*c).Labels["app"]
		if shared[app] == nil {
			shared[app] = *c
		}
		*c = shared[app]
	}
	for i := range snap.Nodes {
		pods := snap.Nodes[i].Reschedulable
		for k := range snap.Nodes[i].Pods {
			share(&snap.Nodes[i].Pods[k].Constraints)
		}
		for k := range pods {
			end := make([]byte, 5)
			for j := range end {
				end[j] = letters[s.random.IntN(len(letters))]
			}
			share(&pods[k].Constraints)
			pods[k].Name = fmt.Sprintf("%s-7c9f8d6b5x-%s", pods[k].Constraints.Labels["app"], end)
		}
	}
}

// nothing is a mirror that knows nothing besides.
type nothing struct{}

func (nothing) Shortages() []catalog.Shortage { return nil }

func (nothing) BudgetChanges() map[string][]time.Time { return nil }

// BudgetSchedule lets no node of any pool go from noon to two.
func (nothing) BudgetSchedule(string) view.BudgetSchedule {
	return func(at time.Time) ([]cluster.Budget, time.Time) {
		const opens, closes = 14 * time.Hour, 12 * time.Hour
		day := at.Truncate(24 * time.Hour)
		switch clock := at.Sub(day); {
		case clock < closes:
			return nil, day.Add(closes)
		case clock < opens:
			return []cluster.Budget{{Active: true}}, day.Add(opens)
		default:
			return nil, day.Add(24*time.Hour + closes)
		}
	}
}

// Decide hands in the cluster as it is, with a decision of each loop about it.
func (s *Session) Decide() {
	p := pack.Decide(s.snap, pack.Options{})
	d, next := disrupt.Propose(s.snap, disrupt.Memory{}, disrupt.Options{})
	s.Latest.Provisioned(s.snap, p.Refusals, nil)
	s.Latest.Disrupted(s.snap, &d, &next, nil)
}

// Idle hands in the same cluster a little later, as a loop does that finds nothing to do.
func (s *Session) Idle() {
	s.at = s.at.Add(10 * time.Second)
	later := *s.snap
	later.At = s.at
	s.snap = &later
	s.handIn()
}

// Change drains so many nodes, one after the other from a number on, and hands that in a little later.
func (s *Session) Change(from, count int) {
	s.at = s.at.Add(time.Second)
	later := *s.snap
	later.At, later.Nodes = s.at, append([]cluster.Node{}, s.snap.Nodes...)
	for i := range count {
		n := &later.Nodes[(from+i)%len(later.Nodes)]
		n.Deleting = !n.Deleting
	}
	s.snap = &later
	s.handIn()
}

// Rename gives every node, pool, workload and pod a name that ends in a text.
func (s *Session) Rename(more string) {
	later := *s.snap
	later.Nodes = append([]cluster.Node{}, s.snap.Nodes...)
	for i := range later.Nodes {
		n := &later.Nodes[i]
		n.Name += more
		if n.Pool != "" {
			n.Pool += more
		}
		n.Pods = append([]cluster.PodCount{}, n.Pods...)
		for k := range n.Pods {
			c := *n.Pods[k].Constraints
			c.Namespace, c.Labels = c.Namespace+more, map[string]string{"app": more}
			n.Pods[k].Constraints = &c
		}
	}
	later.Pools = append([]cluster.Pool{}, s.snap.Pools...)
	for i := range later.Pools {
		later.Pools[i].Name += more
		later.Pools[i].Unready += more
	}
	later.Pending = append([]cluster.Pod{}, s.snap.Pending...)
	for i := range later.Pending {
		later.Pending[i].Name += more
	}
	s.snap = &later
	s.Decide()
}

// handIn hands the cluster in without deciding: what is refused stays refused.
func (s *Session) handIn() {
	var refusals []plan.Refusal
	for i := range s.snap.Pending {
		refusals = append(refusals, plan.Refusal{Pod: s.snap.Pending[i].PodRef, Why: verdict.Of(verdict.TooLarge, "", "no instance type is that large")})
	}
	s.Latest.Provisioned(s.snap, refusals, nil)
}
