package live

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/view"
	"github.com/dovetail-sh/dovetail/internal/view/table"
)

// shownAlike reports whether the map shows the same of two nodes. What changes by the second is not on it.
func shownAlike(a, b *view.Node) bool {
	return a.Pool == b.Pool && a.InstanceType == b.InstanceType && a.Zone == b.Zone && a.CapacityType == b.CapacityType &&
		a.Status.State == b.Status.State && a.Status.Cause.Reason == b.Status.Cause.Reason && a.PriceHourly == b.PriceHourly && a.HasPrice == b.HasPrice &&
		a.Usage == b.Usage && a.Created.Equal(b.Created) && a.Claim == b.Claim && slices.Equal(a.Groups, b.Groups)
}

// rowOf returns what the map shows of a node, but for its pods. Package web's script/data.ts reads it.
func rowOf(n *view.Node) []any {
	return []any{
		n.Name, n.Pool, n.InstanceType, n.Zone, n.CapacityType, n.Status.State, n.Status.Cause.Reason,
		n.PriceHourly, n.HasPrice, n.Usage.CPUUsed, n.Usage.CPU, n.Usage.MemoryUsed, n.Usage.Memory, n.Usage.PodsRunning, n.Created.Unix(), n.Claim != "",
	}
}

// changeOf returns a node as a message has it: its row, and its pods by workload.
func changeOf(n *view.Node) []any {
	groups := make([][]any, len(n.Groups))
	for i, g := range n.Groups {
		groups[i] = []any{g.Namespace, g.Kind, g.Name, g.Pods, g.CPU, g.Memory}
	}
	return []any{rowOf(n), groups}
}

// summary is the line at the head of every page.
type summary struct {
	Healthy bool   `json:"healthy"`
	Price   string `json:"price"`
	Nodes   int    `json:"nodes"`
	Pending int    `json:"pending"`
	Refused int    `json:"refused"`
}

func summaryOf(o *view.Overview) summary {
	return summary{o.Health.Healthy, table.Money(o.Price.Hourly) + "/h", o.Nodes.Total, o.Pending.Pods, o.Pending.Refused}
}

// mapAnswer is the fleet as the map draws it: an array for each node.
type mapAnswer struct {
	Format   string  `json:"format"`
	Revision string  `json:"rev"`
	Nodes    [][]any `json:"nodes"`
}

func mapOf(f *view.Fleet, revision string) mapAnswer {
	answer := mapAnswer{view.Format, revision, [][]any{}}
	for _, p := range f.Pools {
		for i := range p.Nodes {
			answer.Nodes = append(answer.Nodes, rowOf(&p.Nodes[i]))
		}
	}
	return answer
}

// groupsAnswer is the pods of all nodes by workload. It comes by itself, since it is most of the data.
type groupsAnswer struct {
	Format string `json:"format"`
	// Workloads has namespace, kind, name, and the cpu and memory that a pod asks for, on average of a node.
	Workloads [][]any `json:"workloads"`
	// Nodes has for each node its name, and for each of its workloads two figures, one after the other: the
	// number of the workload, and its pods.
	Nodes [][]any `json:"nodes"`
}

// sized is a workload whose pods ask for so much.
type sized struct {
	view.Workload
	cpu, memory int64
}

func groupsOf(f *view.Fleet) groupsAnswer {
	answer, numbers := groupsAnswer{view.Format, [][]any{}, [][]any{}}, map[sized]int{}
	for _, p := range f.Pools {
		for i := range p.Nodes {
			figures := make([]int, 0, 2*len(p.Nodes[i].Groups))
			for _, g := range p.Nodes[i].Groups {
				pods := int64(max(1, g.Pods))
				w := sized{g.Workload, g.CPU / pods, g.Memory / pods}
				number, ok := numbers[w]
				if !ok {
					number = len(numbers)
					numbers[w] = number
					answer.Workloads = append(answer.Workloads, []any{w.Namespace, w.Kind, w.Name, w.cpu, w.memory})
				}
				figures = append(figures, number, g.Pods)
			}
			answer.Nodes = append(answer.Nodes, []any{p.Nodes[i].Name, figures})
		}
	}
	return answer
}
