package simulate

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/buffer"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

// Forms of output.
const (
	Table = "table"
	JSON  = "json"
)

// Clock returns the time and how much CPU time the process has used, all threads together.
type Clock struct {
	Now func() time.Time
	CPU func() time.Duration
}

// Case is a question: a cluster with pods that wait. The UID of each pod is the index of
// its group.
type Case struct {
	Name     string
	Snapshot *cluster.Snapshot
	// Groups are the names of the groups. Named says that they were made for this case and
	// belong in the answer.
	Groups []string
	Named  bool
	// Options are those of the solver.
	Options pack.Options
	// Buffers are the CapacityBuffers, Static the static NodePools, by their names, if their gates are on.
	Buffers []Buffer
	Static  []StaticPool
	// Notes say what a reader should know of how the question was understood.
	Notes []string
}

// Answer is what would be done, and how long it took to decide.
type Answer struct {
	Case
	Plan      plan.Plan
	File      *scenario.Plan
	Wall, CPU time.Duration
	// FirstFit is what first-fit-decreasing alone would have answered; nil: not asked.
	FirstFit *plan.Plan
}

// Scenario returns the case of a kscen/1 file.
func Scenario(path string, at time.Time) (Case, error) {
	s, err := scenario.Read(path)
	if err != nil {
		return Case{}, err
	}
	c := Case{Name: s.Name, Snapshot: s.Snapshot(at), Options: scenarioOptions()}
	for i := range s.PodGroups {
		name := s.PodGroups[i].Name
		if name == "" {
			name = fmt.Sprintf("group %d", i)
		}
		c.Groups = append(c.Groups, name)
	}
	return c, nil
}

// scenarioOptions are those by whose rules scenarios are judged.
func scenarioOptions() pack.Options { return pack.Options{BuyableBinds: true} }

// Run answers a case.
func Run(c Case, clock Clock) (*Answer, error) {
	start, used := clock.Now(), clock.CPU()
	p := pack.Decide(c.Snapshot, c.Options)
	a := &Answer{Case: c, Plan: p, Wall: clock.Now().Sub(start), CPU: clock.CPU() - used}
	file, err := scenario.Answer(c.Name, c.Snapshot, &p)
	if err != nil {
		return nil, fmt.Errorf("simulate %s: %w", c.Name, err)
	}
	file.SolveWallSeconds, file.SolveUserSeconds = a.Wall.Seconds(), a.CPU.Seconds()
	if c.Named {
		file.Groups = c.Groups
	}
	a.File = file
	a.addRooms()
	return a, nil
}

// AskFirstFit adds what first-fit-decreasing alone would have answered, to compare with.
func (a *Answer) AskFirstFit() {
	opts := a.Options
	opts.FirstFitOnly = true
	p := pack.Decide(a.Snapshot, opts)
	a.FirstFit = &p
}

// Refused returns how many pods found no place, and how many chunks of buffers.
func (a *Answer) Refused() int {
	n := len(a.Plan.Refusals)
	for i := range a.Plan.Buffers {
		b := &a.Plan.Buffers[i]
		n += b.Chunks - b.HeldCount() - b.Launched
	}
	return n
}

// Print writes the answer in one of the forms.
func (a *Answer) Print(w io.Writer, form string) error {
	if form == JSON {
		b, err := json.Marshal(a.File)
		if err != nil {
			return fmt.Errorf("print the plan of %s: %w", a.Name, err)
		}
		_, err = w.Write(append(b, '\n'))
		return err
	}
	_, err := io.WriteString(w, a.table())
	return err
}

// Buffer is a CapacityBuffer of a case.
type Buffer struct {
	Name string // namespace/name
	// Chunks is for how many pods it asks for room. NotReady says why that is not known; empty: it is.
	Chunks   int64
	NotReady string
}

// says returns what the condition Provisioning of a buffer would say, given the room that a plan has
// for it; nil: the plan is not about it.
func (b *Buffer) says(room *plan.BufferRoom) buffer.Condition {
	if says, is := buffer.Unplannable(b.NotReady, b.Chunks); is {
		return says
	}
	if room == nil { // there are more buffers than are planned
		room = &plan.BufferRoom{}
	}
	return buffer.Provisioning(room, b.Chunks)
}

// roomOf returns the room that the plan has for a buffer; nil: none is planned.
func (a *Answer) roomOf(name string) *plan.BufferRoom {
	for i := range a.Plan.Buffers {
		if b := &a.Plan.Buffers[i]; b.Namespace+"/"+b.Name == name {
			return b
		}
	}
	return nil
}

// addRooms writes into the file what becomes of buffers and static pools.
func (a *Answer) addRooms() {
	for i := range a.Buffers {
		b := &a.Buffers[i]
		out := scenario.BufferRoom{Name: b.Name, Chunks: b.Chunks, Says: b.says(a.roomOf(b.Name)).Message}
		if room := a.roomOf(b.Name); room != nil {
			out.Held, out.Launched = room.HeldCount(), room.Launched
		}
		a.File.Buffers = append(a.File.Buffers, out)
	}
	for i := range a.Static {
		p := &a.Static[i]
		a.File.Static = append(a.File.Static, scenario.StaticPool{
			Pool: p.Pool, Replicas: p.Replicas, Nodes: p.Nodes, Launched: p.Launched, Removed: p.Removed, PricePerHour: p.PriceHourly, Why: p.Why,
		})
	}
}

// StaticPool is a NodePool with replicas, and what brings it to that number.
type StaticPool struct {
	Pool string
	// Nodes is how many nodes stay that there are. Launched are missing, and Removed too many.
	Replicas, Nodes, Launched, Removed int
	// PriceHourly is that of the launched nodes together.
	PriceHourly float64
	// Why says why fewer are launched than are missing; empty: they are all.
	Why string
}
