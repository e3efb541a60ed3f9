package podmetrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// gauges are the metrics of single pods that wait. They are served as long as the loop
// runs, and are true at every scrape.
type gauges struct {
	loop *Loop

	unbound, unstarted, provisioningUnbound, provisioningUnstarted, undecided *prometheus.Desc
}

func newGauges(l *Loop) *gauges {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("karpenter_pods_"+name+"_time_seconds", help, []string{"name", "namespace"}, nil)
	}
	return &gauges{
		loop:                  l,
		unbound:               desc("unbound", "How long a pod without a node has been there."),
		unstarted:             desc("unstarted", "How long a pod that does not run has been there."),
		provisioningUnbound:   desc("provisioning_unbound", "How long ago a pod without a node was first seen to need one."),
		provisioningUnstarted: desc("provisioning_unstarted", "How long ago a pod that does not run was first seen to need a node."),
		undecided:             desc("provisioning_scheduling_undecided", "How long a pod that needs a node has been without a decision."),
	}
}

// Describe sends the descriptions.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.unbound, g.unstarted, g.provisioningUnbound, g.provisioningUnstarted, g.undecided} {
		ch <- d
	}
}

// Collect sends how long each pod has waited for what it waits for.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	g.loop.mu.Lock()
	defer g.loop.mu.Unlock()
	now, decided := g.loop.Now(), g.loop.Metrics.SchedulerUnfinishedWork.LastEnded()
	for _, w := range g.loop.waiting {
		send := func(d *prometheus.Desc, from time.Time) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, since(from, now), w.name, w.namespace)
		}
		send(g.unstarted, w.created)
		if !w.bound {
			send(g.unbound, w.created)
		}
		if w.asked.IsZero() {
			continue
		}
		send(g.provisioningUnstarted, w.asked)
		if !w.bound {
			send(g.provisioningUnbound, w.asked)
		}
		if !w.bound && decided.Before(w.asked) {
			send(g.undecided, w.asked)
		}
	}
}
