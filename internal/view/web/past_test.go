package web

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/view"
)

// TestChartMarksAllActions: a chart has a mark wherever something was launched or removed, one where many would lie upon
// each other, and none of what was done before or after the time that it shows.
func TestChartMarksAllActions(t *testing.T) {
	t.Parallel()
	first := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	h := &view.History{Prices: &view.PriceSpan{FirstAt: first, LastAt: first.Add(time.Hour), Points: make([]view.Point, 2)}}
	add := func(kind string, after time.Duration, launches ...view.PlannedNode) {
		h.Actions = append(h.Actions, view.Action{At: first.Add(after), Kind: kind, Launch: launches})
	}
	for range 1000 {
		add(view.ActionLaunch, 0, view.PlannedNode{})
	}
	add(view.ActionLaunch, time.Hour, view.PlannedNode{})
	add(view.ActionBegin, 30*time.Minute, view.PlannedNode{})
	add(view.ActionDelete, time.Hour)
	add(view.ActionDelete, time.Hour+1)
	add(view.ActionDelete, -1)
	c := chartOf(h)
	if want := "M6 0v12M994 0v12M500 0v12"; c.Launches != want {
		t.Errorf("launches are marked by %s, want %s", c.Launches, want)
	}
	if want := "M500 148v12M994 148v12"; c.Removals != want {
		t.Errorf("removals are marked by %s, want %s", c.Removals, want)
	}
}
