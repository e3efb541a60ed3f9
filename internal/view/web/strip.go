package web

import (
	"fmt"
	"time"

	"github.com/dovetail-sh/dovetail/internal/view"
)

// stripHour and stripHeight are the size of a strip that shows a budget over a day, stripLow how high it is where the
// budget allows nothing: pages/pool.html has the same.
const stripHour, stripHeight, stripLow = 10, 20, 4

// bar is a span of time in a strip.
type bar struct {
	X, Y, Width, Height float64
	Class, Title        string
}

// stripOf returns the k-th budget of a NodePool over the coming day.
func stripOf(v view.PoolView, k int) (bars []bar) { //nolint:gocritic // as templates have it
	for _, span := range v.Day {
		b := bar{X: stripHour * span.From.Sub(v.Day[0].From).Hours(), Width: stripHour * span.Until.Sub(span.From).Hours(), Height: stripHeight, Class: "up"}
		n := span.Allowed[k]
		if n == 0 {
			b.Y, b.Height, b.Class = stripHeight-stripLow, stripLow, "down"
		}
		allowed := fmt.Sprint(n)
		if n < 0 {
			allowed = "any number"
		}
		b.Title = fmt.Sprintf("%s from %s to %s", allowed, clock(span.From), clock(span.Until))
		bars = append(bars, b)
	}
	return bars
}

// clock returns a time as text.
func clock(at time.Time) string { return at.UTC().Format("Jan 2 15:04:05") + " UTC" }
