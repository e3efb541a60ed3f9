package web

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/view"
	"github.com/dovetail-sh/dovetail/internal/view/table"
)

// Past answers about decisions that were made. An error is of live if there is nothing of that name.
type Past interface {
	// History returns what was done since a time, the newest first; reason and pool may be empty.
	History(since time.Time, reason, pool string) (view.History, error)
	// Decision returns the decision with that ID.
	Decision(id string) (view.Decision, error)
	// Explain returns what is known of what a person names, in one word or two; with types, of a node or NodeClaim also
	// why it is of its instance type.
	Explain(asked string, types bool) ([]view.Explained, error)
}

const (
	// actionsMost is how many actions a page of the past has.
	actionsMost = 100
	// spanUsual is the span of time that is shown when none is asked for.
	spanUsual = "24h"
	// chartWidth and chartHeight are in the chart's own unit: it is as wide as the page.
	chartWidth, chartHeight, chartEdge = 1000, 160, 6
	// bucketsMost bounds the points of a chart: four for each part of the time.
	bucketsMost = 100
)

// span is a choice of how far back a page goes.
type span struct {
	Value, Title string
	length       time.Duration // 0: to the oldest decision that is kept
}

func spans() []span {
	return []span{{"1h", "hour", time.Hour}, {"6h", "6 hours", 6 * time.Hour}, {spanUsual, "24 hours", 24 * time.Hour}, {"7d", "7 days", 7 * 24 * time.Hour}, {"all", "all that is kept", 0}}
}

// past is what the page of the decisions is given.
type past struct {
	view.History
	// Span, Reason and Pool are what was asked for; Words are the reasons that people ask for most.
	Span, Reason, Pool string
	Spans              []span
	Words              []string
	// Shown are the newest actions; More is how many others there are.
	Shown []view.Action
	More  int
	Chart *chart // nil: no price is known
}

// asked returns what a query asks for.
func asked(q url.Values, now time.Time) (v *past, since time.Time) {
	v = &past{Span: cmp.Or(q.Get("since"), spanUsual), Reason: q.Get("reason"), Pool: q.Get("pool"), Spans: spans(), Words: []string{"provisioning", "consolidation", "drift", "expiry", "interruption", "repair"}}
	for _, known := range v.Spans {
		if known.Value == v.Span && known.length > 0 {
			since = now.Add(-known.length)
		}
	}
	return v, since
}

// Only returns the address of the page for a reason, of the same time and pool.
func (v *past) Only(reason string) string {
	q := url.Values{"since": {v.Span}}
	for key, value := range map[string]string{"reason": reason, "pool": v.Pool} {
		if value != "" {
			q.Set(key, value)
		}
	}
	return "/decisions?" + q.Encode()
}

// take takes in what was done.
func (v *past) take(h *view.History) {
	v.History = *h
	v.Shown = h.Actions[:min(len(h.Actions), actionsMost)]
	v.More, v.Chart = len(h.Actions)-len(v.Shown), chartOf(h)
}

// chart is the price of the nodes over time, with what was launched and removed as marks.
type chart struct {
	Width, Height int
	// Line are the points of the price, as SVG has them; Launches and Removals the paths of the marks: short lines at the
	// top and at the bottom.
	Line, Launches, Removals string
	// Says is the chart in words.
	Says        string
	Least, Most float64
	First, Last time.Time
}

// chartOf returns the chart of a history; nil: there is no price, or no span of time.
func chartOf(h *view.History) *chart {
	p := h.Prices
	if p == nil || len(p.Points) < 2 || !p.LastAt.After(p.FirstAt) {
		return nil
	}
	c := &chart{Width: chartWidth, Height: chartHeight, Least: p.Least, Most: p.Peak, First: p.FirstAt, Last: p.LastAt}
	x := func(at time.Time) float64 {
		return chartEdge + (chartWidth-2*chartEdge)*at.Sub(p.FirstAt).Seconds()/p.LastAt.Sub(p.FirstAt).Seconds()
	}
	y := func(price float64) float64 {
		return chartHeight - 3*chartEdge - (chartHeight-6*chartEdge)*price/max(p.Peak, 1e-9)
	}
	var line strings.Builder
	before := p.First
	for _, at := range thinned(p.Points) { // the price is that of one decision until the next
		fmt.Fprintf(&line, "%.1f,%.1f %.1f,%.1f ", x(at.At), y(before), x(at.At), y(at.PriceHourly))
		before = at.PriceHourly
	}
	c.Line = strings.TrimSpace(line.String())
	isLaunch := func(a *view.Action) bool { return len(a.Launch) > 0 }
	isRemoval := func(a *view.Action) bool { return a.Kind == view.ActionBegin || a.Kind == view.ActionDelete }
	c.Launches = marks(h, x, isLaunch, 0)
	c.Removals = marks(h, x, isRemoval, chartHeight-2*chartEdge)
	c.Says = fmt.Sprintf("The price of the nodes over time: %s an hour at first, %s at last, %s at least, %s at most.", table.Money(p.First), table.Money(p.Last), table.Money(p.Least), table.Money(p.Peak))
	return c
}

// marks returns the path of the marks of some actions, one where many would lie upon each other.
func marks(h *view.History, x func(time.Time) float64, is func(*view.Action) bool, top int) string {
	var path strings.Builder
	var marked [chartWidth + 1]bool
	for i := range h.Actions {
		a := &h.Actions[i]
		if a.At.Before(h.Prices.FirstAt) || a.At.After(h.Prices.LastAt) || !is(a) {
			continue
		}
		if at := int(x(a.At)); !marked[at] {
			marked[at] = true
			fmt.Fprintf(&path, "M%d %dv%d", at, top, 2*chartEdge)
		}
	}
	return path.String()
}

// thinned returns at most so many points that a chart can show them: of each part of the time the first, the
// last, the cheapest and the dearest.
func thinned(points []view.Point) []view.Point {
	if len(points) <= 4*bucketsMost {
		return points
	}
	var out []view.Point
	size := (len(points) + bucketsMost - 1) / bucketsMost
	for part := range slices.Chunk(points, size) {
		least, most := 0, 0
		for i := range part {
			if part[i].PriceHourly < part[least].PriceHourly {
				least = i
			}
			if part[i].PriceHourly > part[most].PriceHourly {
				most = i
			}
		}
		keep := []int{0, least, most, len(part) - 1}
		slices.Sort(keep)
		for _, i := range slices.Compact(keep) {
			out = append(out, part[i])
		}
	}
	return out
}
