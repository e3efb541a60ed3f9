package disrupt_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestRepairIsBounded decides about random pools with unhealthy nodes. Repair stays within its
// budget; it touches no node where more than a fifth are unhealthy, or that forbids it, or whose pods
// may hold its drain for ever; every pod has a target node before its node goes, unless terminate-first
// is on.
func TestRepairIsBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := anySick(t)
		snap, err := story.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		opts := options()
		opts.Repair.CanReboot = rapid.Bool().Draw(t, "can reboot")
		opts.TerminateFirst.Unhealthy = rapid.Bool().Draw(t, "terminate first")
		p, _ := disrupt.Propose(snap, disrupt.Memory{}, opts)
		if len(p.GivenUp) > 0 {
			t.Fatalf("%v\n%s", p.GivenUp, text)
		}
		j := &repairJudge{T: t, snap: snap, text: text + story.PrintDisruption(&p), first: opts.TerminateFirst.Unhealthy, begun: map[string]int{}}
		for i := range p.Commands {
			if c := &p.Commands[i]; c.Reason == disrupt.Unhealthy {
				j.command(c)
			}
		}
		for _, r := range p.Reboots {
			j.node(r.Node)
		}
		for _, r := range p.Removals {
			j.removal(r)
		}
		j.budgets()
	})
}

// anySick returns the story of pools with unhealthy nodes.
func anySick(t *rapid.T) string {
	var b strings.Builder
	pick := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
	b.WriteString("type four cpu=4 memory=8Gi price=0.20 " + pick("reserved", "", "reserved=cr:a:0") + "\npdb db allowed=0\n")
	for p := range rapid.IntRange(1, 2).Draw(t, "pools") {
		n := rapid.IntRange(1, 12).Draw(t, "nodes")
		fmt.Fprintf(&b, "pool p%d after=Never %s %s %s\n", p, pick("budget", "", "budget=1", "budget=30%", "budget=0/Unhealthy", "budget=2/Unhealthy"),
			pick("kind", "", "", "limit.nodes=3", fmt.Sprintf("static replicas=%d", n), fmt.Sprintf("static replicas=%d limit.nodes=%d", n, n)), pick("unready", "", "", "", "unready=gone"))
		for i := range n {
			name := fmt.Sprintf("n%d-%d", p, i)
			sick := pick("sick", "", "", "", "sick=Ready:False:5m", "sick=Ready:False:5m:bound=1m", "sick=Ready:False:-5m", "sick=Disk:True:9m:rank=1:bound=0s", "sick=GPU:False:5m:reboot")
			fmt.Fprintf(&b, "node %s pool=p%d type=four %s %s %s %s %s\n", name, p, sick, pick("state", "", "", "", "notready", "starting", "unregistered starting", "deleting", "rebooting"),
				pick("grace", "", "grace=30s"), pick("veto", "", "", "do-not-repair", "do-not-disrupt=annotation"), pick("progress", "", "", "", "reason=Unhealthy disrupted since=1m command=s"+name+":1:1"))
			if rapid.Bool().Draw(t, "pods") {
				fmt.Fprintf(&b, "running web on=%s cpu=1 count=%d %s\n", name, rapid.IntRange(1, 3).Draw(t, "count"), pick("held", "", "", "pdb=db", "do-not-disrupt=annotation"))
			}
			if rapid.Bool().Draw(t, "replaced") {
				fmt.Fprintf(&b, "node r%s pool=p%d type=four replaces=s%s %s\n", name, p, name, pick("arrives", "", "starting"))
			}
		}
	}
	return b.String()
}

// repairJudge judges what repair decided, without the code that decides.
type repairJudge struct {
	*rapid.T
	snap  *cluster.Snapshot
	text  string
	first bool
	begun map[string]int // initialized nodes whose repair begins, by pool
}

func (j *repairJudge) find(name string) *cluster.Node {
	for i := range j.snap.Nodes {
		if j.snap.Nodes[i].Name == name {
			return &j.snap.Nodes[i]
		}
	}
	j.Fatalf("no node %s\n%s", name, j.text)
	return nil
}

// node judges one node whose repair begins.
func (j *repairJudge) node(name string) {
	n := j.find(name)
	due, bounded := false, n.HasGrace
	for _, a := range n.Ailments {
		if a.Due.Before(j.snap.At) {
			due, bounded = true, bounded || a.Bound.IsSet
		}
	}
	if !due || n.DoNotRepair || !n.Registered || n.Deleting || n.Rebooting || n.DisruptionReason != "" {
		j.Fatalf("%s may not be repaired\n%s", name, j.text)
	}
	for i := range n.Reschedulable {
		if r := &n.Reschedulable[i]; !bounded && (len(r.PDBs) > 0 || r.DoNotDisrupt != "") {
			j.Fatalf("%s is repaired though %s may hold its drain for ever\n%s", name, r, j.text)
		}
	}
	all, sick := 0, 0
	for i := range j.snap.Nodes {
		if m := &j.snap.Nodes[i]; m.Pool == n.Pool && m.Registered {
			all++
			if len(m.Ailments) > 0 {
				sick++
			}
		}
	}
	if 5*(sick-1) >= all {
		j.Fatalf("%s is repaired though %d of %d nodes are unhealthy\n%s", name, sick, all, j.text)
	}
	if n.Initialized {
		j.begun[n.Pool]++
	}
}

// command judges that every pod of a node has a target node before the node goes.
func (j *repairJudge) command(c *plan.Command) {
	for _, r := range c.Remove {
		j.node(r.Node)
	}
	n := j.find(c.Remove[0].Node)
	pool, _ := j.snap.PoolByName(n.Pool)
	switch {
	case c.TerminateFirst != "":
		if !j.first || len(c.Launch) > 0 || pool.Unready != "" {
			j.Fatalf("%s goes first\n%s", n.Name, j.text)
		}
	case pool.Static:
		if len(c.Launch) != 1 || c.Launch[0].Pool != pool.Name {
			j.Fatalf("%s of a static pool is not replaced\n%s", n.Name, j.text)
		}
	default:
		placed := len(c.Moves)
		for i := range c.Launch {
			placed += len(c.Launch[i].Pods)
		}
		if placed != len(n.Reschedulable) {
			j.Fatalf("%d of %d pods of %s have a target node\n%s", placed, len(n.Reschedulable), n.Name, j.text)
		}
	}
}

// removal judges that a node goes when its replacement is initialized.
func (j *repairJudge) removal(r plan.Removal) {
	n := j.find(r.Node)
	arrived := 0
	for i := range j.snap.Nodes {
		if m := &j.snap.Nodes[i]; m.Replaces == n.Step && m.Initialized && !m.Deleting {
			arrived++
		}
	}
	if arrived < n.StepLaunches || len(n.Ailments) == 0 || n.DoNotRepair {
		j.Fatalf("%s is removed with %d of %d replacements\n%s", r.Node, arrived, n.StepLaunches, j.text)
	}
	least := time.Duration(-1)
	for _, a := range n.Ailments {
		if a.Bound.IsSet && (least < 0 || a.Bound.Within < least) && (a.Due.Before(j.snap.At) || len(n.Ailments) == 1) {
			least = a.Bound.Within
		}
	}
	if least >= 0 && n.HasGrace {
		least = min(least, n.Grace)
	}
	if r.Bound.IsSet != (least >= 0) || r.Bound.IsSet && r.Bound.Within != least {
		j.Fatalf("%s is drained within %v, want %s\n%s", r.Node, r.Bound, least, j.text)
	}
}

// budgets judges that repair begins no more than the budgets allow beside what is in progress.
func (j *repairJudge) budgets() {
	for i := range j.snap.Pools {
		pool := &j.snap.Pools[i]
		total, going := 0, 0
		for k := range j.snap.Nodes {
			if n := &j.snap.Nodes[k]; n.Pool == pool.Name && (n.Initialized || n.Rebooting) {
				total++
				if n.Deleting || n.Rebooting || n.DisruptionReason != "" {
					going++
				}
			}
		}
		for _, b := range pool.Budgets {
			most := b.Nodes
			if b.Percent {
				most = (total*b.Nodes + 99) / 100
			}
			if n := j.begun[pool.Name]; n > 0 && n+going > most {
				j.Fatalf("pool %s: %d begun, %d going, %d allowed\n%s", pool.Name, n, going, most, j.text)
			}
		}
	}
}
