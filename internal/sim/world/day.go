package world

import (
	"math"
	"time"
)

// How an ordinary day differs from a storm.
const (
	// seldom is how many times less often faults strike, those of writes and of the cloud aside.
	// Of them only crashes do: as in a storm, they would be one every few minutes of much writing.
	seldom = 12
	// follows is how often the load is set to what the hour asks for, and swing by how much of
	// itself it goes up and down with it.
	follows, swing = 20 * time.Minute, 0.3
	// age is how many times longer nodes live, where they expire: 8 to 48 hours.
	age = 4
	// dayHours is how long the load takes from peak to peak.
	dayHours = 24
)

// often are the mean times between two of what happens on an ordinary day more often than
// seldom says.
//
//nolint:gochecknoglobals // what there is, which nobody changes
var often = map[Fault]time.Duration{Rollout: time.Hour, Drift: 24 * time.Hour}

// meanOf returns the mean time between two of a fault that is as frequent in a storm.
func (c *chaos) meanOf(f Fault, inStorm time.Duration) time.Duration {
	switch mean, is := often[f]; {
	case !c.w.opts.Ordinary:
		return inStorm
	case is:
		return mean
	default:
		return seldom * inStorm
	}
}

// life returns after how long nodes of a pool expire.
func (w *World) life() time.Duration {
	d := w.between(2*time.Hour, 12*time.Hour).Round(time.Minute)
	if w.opts.Ordinary {
		d *= age
	}
	return d
}

// followHours has the load follow the hour for as long as the storm lasts, each workload in its
// own minutes. A Job begins anew each time.
func (c *chaos) followHours() {
	w := c.w
	for _, a := range w.workloads.All {
		if a.Apart || a.Stateful || a.Gang > 0 {
			continue
		}
		base := float64(a.Replicas)
		w.after(w.between(0, follows), func() {
			w.every(follows, func() {
				level := 1 + swing*math.Sin(2*math.Pi*w.at.Sub(start).Hours()/dayHours)
				if want := max(1, int(math.Round(base*level))); c.stormy && a.Replicas != want {
					a.Replicas = want
					w.workloads.Wake(a)
				}
			})
		})
	}
}
