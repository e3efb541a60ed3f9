package simulate

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/consolidate"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

// Saving is what consolidation would do about a case, and how long it took to decide.
type Saving struct {
	Case
	consolidate.Result
	Wall, CPU time.Duration
}

// Consolidate answers a case with the steps that would make its nodes cheaper. Budgets
// of pools, which say how many steps may be under way at once, are not looked at.
func Consolidate(c Case, opts consolidate.Options, clock Clock) *Saving {
	c.groupReschedulable()
	opts.Pack = c.Options
	if opts.Candidate == nil {
		opts.Candidate = c.wantsIt
	}
	start, used := clock.Now(), clock.CPU()
	out := consolidate.Search(c.Snapshot, opts)
	return &Saving{Case: c, Result: out, Wall: clock.Now().Sub(start), CPU: clock.CPU() - used}
}

// wantsIt returns why a node's pool does not want it removed.
func (c *Case) wantsIt(n *cluster.Node) verdict.Verdict {
	pool, ok := c.Snapshot.PoolByName(n.Pool)
	if ok && pool.Policy == cluster.PolicyEmpty && len(n.Reschedulable) > 0 {
		return verdict.Of(verdict.Unconsolidatable, n.Name, "consolidationPolicy of pool %s is %s", n.Pool, pool.Policy)
	}
	return verdict.Verdict{}
}

// groupReschedulable gives running pods that have none a group, as files count pods: those
// that are alike share one, which has the name of the first.
func (c *Case) groupReschedulable() {
	grouped := true
	for i := range c.Snapshot.Nodes {
		for r := range c.Snapshot.Nodes[i].Reschedulable {
			_, err := strconv.Atoi(c.Snapshot.Nodes[i].Reschedulable[r].UID)
			grouped = grouped && err == nil
		}
	}
	if grouped {
		return
	}
	snap := *c.Snapshot
	snap.Nodes = slices.Clone(snap.Nodes)
	group := map[*cluster.Constraints]int{}
	for i := range snap.Nodes {
		snap.Nodes[i].Reschedulable = slices.Clone(snap.Nodes[i].Reschedulable)
		for r := range snap.Nodes[i].Reschedulable {
			p := &snap.Nodes[i].Reschedulable[r]
			g, ok := group[p.Constraints]
			if !ok {
				g = len(c.Groups)
				group[p.Constraints] = g
				c.Groups = append(slices.Clip(c.Groups), p.Namespace+"/"+p.Name)
			}
			p.UID = strconv.Itoa(g)
		}
	}
	c.Snapshot, c.Named = &snap, true
}

// File returns the answer as kplan/1.
func (a *Saving) File() (*scenario.Plan, error) {
	file, err := scenario.Steps(a.Name, a.Snapshot, a.Steps)
	if err != nil {
		return nil, fmt.Errorf("simulate %s: %w", a.Name, err)
	}
	file.SolveWallSeconds, file.SolveUserSeconds = a.Wall.Seconds(), a.CPU.Seconds()
	file.PricePerHour, file.LowerBoundPerHour = a.AfterHourly, a.BoundHourly
	if a.Named {
		file.Groups = a.Groups
	}
	return file, nil
}

// Print writes the answer in one of the forms.
func (a *Saving) Print(w io.Writer, form string) error {
	if form != JSON {
		_, err := io.WriteString(w, a.table())
		return err
	}
	file, err := a.File()
	if err != nil {
		return err
	}
	b, err := json.Marshal(file)
	if err != nil {
		return fmt.Errorf("print the steps of %s: %w", a.Name, err)
	}
	_, err = w.Write(append(b, '\n'))
	return err
}
