package simulate

import (
	"fmt"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/scenario"
)

// Saving is what consolidation would do about a case, and how long it took to decide.
type Saving struct {
	Case
	disrupt.Consolidation
	File      *scenario.Plan
	Wall, CPU time.Duration
}

// Consolidate answers a case with the steps that would make its machines cheaper.
func Consolidate(c Case, opts disrupt.ConsolidateOptions, clock Clock) (*Saving, error) {
	opts.Pack = c.Options
	start, used := clock.Now(), clock.CPU()
	out := disrupt.Consolidate(c.Snapshot, opts)
	a := &Saving{Case: c, Consolidation: out, Wall: clock.Now().Sub(start), CPU: clock.CPU() - used}
	file, err := scenario.Steps(c.Name, c.Snapshot, out.Steps)
	if err != nil {
		return nil, fmt.Errorf("simulate %s: %w", c.Name, err)
	}
	file.SolveWallSeconds, file.SolveUserSeconds = a.Wall.Seconds(), a.CPU.Seconds()
	file.PricePerHour, file.LowerBoundPerHour = out.AfterHourly, out.BoundHourly
	if c.Named {
		file.Groups = c.Groups
	}
	a.File = file
	return a, nil
}
