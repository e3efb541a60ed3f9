package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	"github.com/dovetail-sh/dovetail/internal/core/buffer"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
)

// Buffer is a CapacityBuffer of a case.
type Buffer struct {
	Name string // namespace/name
	// Chunks is for how many pods it asks for room. NotReady says why that is not known; empty: it is.
	Chunks   int64
	NotReady string
}

// observeBuffers shows the mirror the CapacityBuffers and what they name, and returns what each comes
// to.
func (m *manifests) observeBuffers(store *mirror.Store) ([]Buffer, error) {
	if err := store.Observe(m.named...); err != nil {
		return nil, err
	}
	slices.SortFunc(m.buffers, func(a, b *autoscalingv1beta1.CapacityBuffer) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	var out []Buffer
	for _, cb := range m.buffers {
		if cb.DeletionTimestamp != nil {
			continue
		}
		if err := store.Observe(cb); err != nil {
			return nil, err
		}
		if r, known := store.Buffers().Resolve(cb); known {
			out = append(out, Buffer{cb.Namespace + "/" + cb.Name, r.Chunks, r.Message})
		}
	}
	return out, nil
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

// buffersMax is how many buffers the table shows.
const buffersMax = 30

func (a *Answer) writeBuffers(b *strings.Builder) {
	if len(a.Buffers) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:\n", counted(len(a.Buffers), "capacity buffer"))
	for i := range a.Buffers {
		if i == buffersMax {
			fmt.Fprintf(b, "  and %s more (-o json has them all)\n", counted(len(a.Buffers)-i, "buffer"))
			break
		}
		name := a.Buffers[i].Name
		fmt.Fprintf(b, "  %s: %s\n", name, a.Buffers[i].says(a.roomOf(name)).Message)
	}
	b.WriteByte('\n')
}

// chunksLaunched returns for how many chunks of buffers nodes are launched.
func (a *Answer) chunksLaunched() (n int) {
	for i := range a.Plan.Buffers {
		n += a.Plan.Buffers[i].Launched
	}
	return n
}
