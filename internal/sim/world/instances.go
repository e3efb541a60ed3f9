package world

import (
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/kwok"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

func newCloud(w *World) *cloudSim {
	words, err := kwok.New(nil, kwok.Options{Now: func() time.Time { return w.at }})
	if err != nil {
		panic(err)
	}
	c := &cloudSim{
		w: w, words: words, stock: map[catalog.Place]int{},
		byID: map[string]*instance{}, byToken: map[string]*instance{}, byNode: map[string]*instance{},
	}
	largest := int64(16000)
	switch {
	case w.opts.Nodes > manyNodes:
		largest = 8000 // so that there are as many nodes as are asked for
	case w.opts.Arrivals != nil:
		largest = 64000
	}
	for _, t := range kwok.DefaultTypes() {
		if strings.HasSuffix(t.Name, "-amd64-linux") && t.Capacity[quantity.CPU] <= largest {
			c.types = append(c.types, t)
		}
	}
	return c
}

// kubeletUp reports whether a Node's kubelet works.
func (c *cloudSim) kubeletUp(node string) bool {
	i := c.byNode[node]
	return i != nil && i.state == joined && !i.frozen.After(c.w.at) && !i.boots
}

// State returns the state of the instance of a Node.
func (c *cloudSim) State(node string) (cluster.InstanceState, bool) {
	i := c.byNode[node]
	if i == nil {
		return cluster.InstanceState{}, false
	}
	return cluster.InstanceState{Up: c.kubeletUp(node), SilentSince: i.silentSince, Ended: i.state == gone}, true
}

// costs returns what runs costs an hour.
func (c *cloudSim) costs() float64 {
	sum := 0.0
	for _, i := range c.live() {
		if !i.isDoomed {
			sum += i.price
		}
	}
	return sum
}

// live returns the instances that are there, the oldest first.
func (c *cloudSim) live() []*instance {
	var live []*instance
	for _, i := range c.all {
		if i.state < stopping {
			live = append(live, i)
		}
	}
	return live
}

// freeze silences an instance's kubelet for a while.
func (c *cloudSim) freeze(i *instance, d time.Duration) {
	i.frozen, i.silentSince = c.w.at.Add(d), c.w.at
	c.w.after(d, func() {
		if i.state == joined && !i.boots {
			i.silentSince = time.Time{}
		}
	})
}
