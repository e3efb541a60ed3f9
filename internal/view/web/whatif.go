package web

import (
	"cmp"
	"context"
	"net/url"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/view"
)

const (
	whatIfPath = "/whatif"
	// whatIfRowsMost is how many rows a table of the page of a change has.
	whatIfRowsMost = 100
)

// Question is what is to be different, as a person wrote it; the zero Question: nothing.
type Question struct {
	// Spot is a share, as 80%. Policy is a consolidationPolicy. Without are patterns of instance types, divided by
	// commas. Settings are NAME.FIELD=VALUE, one a line. Pools are NodePools in YAML.
	Spot, Policy, Without, Settings, Pools string
}

// IsNothing reports whether nothing is to be different.
func (q *Question) IsNothing() bool { return *q == Question{} }

// WhatIf answers what a change would do.
type WhatIf func(context.Context, *Question) (*view.WhatIf, error)

// whatIf is what the page is given.
type whatIf struct {
	Question
	// Command asks the same in a terminal; empty: nothing is asked.
	Command string
	Answer  *view.WhatIf // nil: nothing was asked, or there is none
	Fault   string
	// CanAsk: the page can be answered here.
	CanAsk bool
}

func questionOf(q url.Values) Question {
	get := func(key string) string { return strings.TrimSpace(strings.ReplaceAll(q.Get(key), "\r\n", "\n")) }
	return Question{Spot: get("spot"), Policy: get("policy"), Without: get("without"), Settings: get("pool"), Pools: get("f")}
}

// command returns the command that asks the same.
func (q *Question) command() string {
	parts := []string{"dovetail whatif"}
	add := func(flag, value string) {
		if value != "" {
			parts = append(parts, "--"+flag+" '"+strings.ReplaceAll(value, "'", `'\''`)+"'")
		}
	}
	add("spot", q.Spot)
	add("policy", q.Policy)
	add("without-type", q.Without)
	for line := range strings.SplitSeq(q.Settings, "\n") {
		add("pool", strings.TrimSpace(line))
	}
	if q.Pools != "" {
		parts = append(parts, "-f pools.yaml")
	}
	return strings.Join(parts, " ")
}

// outlook is a row of the table of outlooks.
type outlook struct {
	Name string
	view.Outlook
}

// Outlooks returns the cluster now, left alone and with the change.
func (v *whatIf) Outlooks() []outlook {
	return []outlook{{"now", v.Answer.Now}, {"left alone", v.Answer.Left}, {"with the change", v.Answer.Then}}
}

// Steps returns the first steps.
func (v *whatIf) Steps() []view.WhatIfStep {
	return v.Answer.Steps[:min(len(v.Answer.Steps), whatIfRowsMost)]
}

// MoreSteps is how many steps are not shown.
func (v *whatIf) MoreSteps() int { return max(0, len(v.Answer.Steps)-whatIfRowsMost) }

// drifts is nodes that a change makes differ from their NodePool, or no longer.
type drifts struct {
	Caption string
	Nodes   []view.Drift
	More    int
}

// Drifts returns the nodes that drift, that do not any more, and that stay.
func (v *whatIf) Drifts() (out []drifts) {
	for _, d := range []drifts{
		{Caption: "Nodes that drift because of it", Nodes: v.Answer.Drift},
		{Caption: "Nodes that are not drifted any more", Nodes: v.Answer.NoDrift},
		{Caption: "Drifted nodes that are there at the end", Nodes: v.Answer.Stay},
	} {
		if d.More = max(0, len(d.Nodes)-whatIfRowsMost); len(d.Nodes) > 0 {
			d.Nodes = d.Nodes[:len(d.Nodes)-d.More]
			out = append(out, d)
		}
	}
	return out
}

// changes is what things of a kind cost.
type changes struct {
	Of   string
	Rows []view.Change
	More int
}

// Changes returns what NodePools and workloads cost.
func (v *whatIf) Changes() []changes {
	out := []changes{{Of: "NodePool", Rows: v.Answer.Pools}, {Of: "Workload", Rows: v.Answer.Workloads}}
	for i := range out {
		out[i].More = max(0, len(out[i].Rows)-whatIfRowsMost)
		out[i].Rows = out[i].Rows[:len(out[i].Rows)-out[i].More]
	}
	return out
}

// reasonOf returns why a step is made.
func reasonOf(s view.WhatIfStep) string { return cmp.Or(s.Reason, "pending pods") }
