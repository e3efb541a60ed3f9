package simulate

import (
	"fmt"
	"strings"
)

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

func (a *Answer) writeStatic(b *strings.Builder) {
	for i := range a.Static {
		p := &a.Static[i]
		fmt.Fprintf(b, "static pool %s: %d of %s there", p.Pool, p.Nodes, counted(p.Replicas, "replica"))
		if p.Launched > 0 {
			fmt.Fprintf(b, "; %s would be launched, at %s $/h", counted(p.Launched, "node"), dollars(p.PriceHourly))
		}
		if p.Removed > 0 {
			fmt.Fprintf(b, "; %s would be removed", counted(p.Removed, "node"))
		}
		if p.Why != "" {
			fmt.Fprintf(b, "; short of nodes: %s", p.Why)
		}
		b.WriteByte('\n')
	}
	if len(a.Static) > 0 {
		b.WriteByte('\n')
	}
}

// staticLaunched returns how many nodes are launched for static pools.
func (a *Answer) staticLaunched() (n int) {
	for i := range a.Static {
		n += a.Static[i].Launched
	}
	return n
}
