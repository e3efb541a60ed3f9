package live

import (
	"encoding/json"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/view"
	"github.com/dovetail-sh/dovetail/internal/view/table"
)

// row is what the map shows of a node, encoded once: node is an array, in the order of rowOf, and groups
// an array of [namespace, kind, name, pods, cpu, memory]. What changes by the second is in neither.
type row struct{ node, groups string }

// rowOf encodes a node. Package web's script/data.ts reads it.
func rowOf(n *view.Node) (row, error) {
	node, err := json.Marshal([]any{
		n.Name, n.Pool, n.InstanceType, n.Zone, n.CapacityType, n.Status.State, string(n.Status.Cause.Reason),
		n.PriceHourly, n.HasPrice, n.Usage.CPUUsed, n.Usage.CPU, n.Usage.MemoryUsed, n.Usage.Memory, n.Usage.PodsRunning, n.Created.Unix(), n.Claim != "",
	})
	if err != nil {
		return row{}, err
	}
	groups := make([][]any, len(n.Groups))
	for i, g := range n.Groups {
		groups[i] = []any{g.Namespace, g.Kind, g.Name, g.Pods, g.CPU, g.Memory}
	}
	said, err := json.Marshal(groups)
	return row{string(node), string(said)}, err
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

// join returns encoded values as an array.
func join(values []string) string { return "[" + strings.Join(values, ",") + "]" }
