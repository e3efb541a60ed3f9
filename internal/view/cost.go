package view

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// How cost is divided.
const (
	ByNamespace = "namespace"
	ByWorkload  = "workload"
	// ByLabel is followed by the key of a label of pods.
	ByLabel = "label:"
)

// Cost is who uses the money. Each node's price is divided among its pods by the larger share of its cpu or
// memory that they ask for; what no pod asks for is idle. Pods that ask for more than there is together
// have all of the price.
type Cost struct {
	Head
	// By is namespace, workload, or label:KEY.
	By string `json:"by"`
	// Price is of all nodes of ours: the sum of Rows, Others and Idle.
	Price      Price   `json:"price"`
	IdleHourly float64 `json:"idleHourlyDollars"`
	// OthersHourly is what pods cost that the answer is not about, if it has a scope.
	OthersHourly float64   `json:"othersHourlyDollars,omitempty"`
	Rows         []CostRow `json:"rows"`
}

// CostRow is what the pods of one name cost. CPU and Memory are what they ask for on nodes of ours.
type CostRow struct {
	Name   string  `json:"name"`
	Hourly float64 `json:"hourlyDollars"`
	Pods   int     `json:"pods"`
	CPU    int64   `json:"cpu"`
	Memory int64   `json:"memory"`
}

// ParseBy reads how cost is to be divided; false: it is not namespace, workload or label:KEY.
func ParseBy(text string) (by string, ok bool) {
	switch {
	case text == "":
		return ByNamespace, true
	case text == ByNamespace, text == ByWorkload, strings.HasPrefix(text, ByLabel) && len(text) > len(ByLabel):
		return text, true
	}
	return "", false
}

// CostOf returns who uses the money, the most first. by is as ParseBy returns it.
func CostOf(s *State, by string) Cost {
	r, v := newReader(s), Cost{Head: s.head("Cost"), By: by, Rows: []CostRow{}}
	b := &costBuilder{reader: r, by: by, out: &v, at: map[string]int{}}
	for i := range s.Snapshot.Nodes {
		if n := &s.Snapshot.Nodes[i]; n.Claim != "" {
			v.Price.add(r, n)
			b.add(n)
		}
	}
	slices.SortFunc(v.Rows, func(a, b CostRow) int { return cmp.Or(cmp.Compare(b.Hourly, a.Hourly), cmp.Compare(a.Name, b.Name)) })
	return v
}

type costBuilder struct {
	reader *reader
	by     string
	out    *Cost
	at     map[string]int
}

// add divides the price of a node.
func (b *costBuilder) add(n *cluster.Node) {
	price, _ := b.reader.prices.Of(n)
	shares, sum := make([]float64, len(n.Pods)), 0.0
	for i := range n.Pods {
		shares[i] = larger(n, &n.Pods[i])
		sum += shares[i]
	}
	whole := max(1, sum)
	for i := range n.Pods {
		if !b.reader.scope.hasPod(n.Pods[i].Constraints) {
			b.out.OthersHourly += price * shares[i] / whole
			continue
		}
		b.row(&n.Pods[i], price*shares[i]/whole)
	}
	b.out.IdleHourly += price * (whole - sum) / whole
}

// larger returns which part of a node pods ask for: of cpu or memory, whichever is more.
func larger(n *cluster.Node, p *cluster.PodCount) float64 {
	part := func(name string) float64 {
		whole := n.Allocatable[name]
		if whole <= 0 {
			return 0
		}
		return max(0, float64(quantity.Mul(p.Constraints.Requests[name], int64(p.Count)))/float64(whole))
	}
	return max(part(quantity.CPU), part(quantity.Memory))
}

// row adds pods to the row of their name.
func (b *costBuilder) row(p *cluster.PodCount, hourly float64) {
	name := b.nameOf(p.Constraints)
	k, ok := b.at[name]
	if !ok {
		k = len(b.out.Rows)
		b.at[name] = k
		b.out.Rows = append(b.out.Rows, CostRow{Name: name})
	}
	row, count := &b.out.Rows[k], int64(p.Count)
	row.Hourly += hourly
	row.Pods += int(count)
	row.CPU = quantity.Add(row.CPU, quantity.Mul(p.Constraints.Requests[quantity.CPU], count))
	row.Memory = quantity.Add(row.Memory, quantity.Mul(p.Constraints.Requests[quantity.Memory], count))
}

func (b *costBuilder) nameOf(c *cluster.Constraints) string {
	switch key, isLabel := strings.CutPrefix(b.by, ByLabel); {
	case isLabel:
		return cmp.Or(c.Labels[key], "(none)")
	case b.by == ByWorkload:
		w := b.reader.workloads.of(c)
		return strings.TrimPrefix(w.Kind+" "+w.String(), " ")
	default:
		return c.Namespace
	}
}
