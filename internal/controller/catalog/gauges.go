package catalog

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// gauges are the metrics of instance types. They are computed at every scrape, as long
// as the loop runs.
type gauges struct {
	// lists returns the types to show, for each class.
	lists func() [][]*catalog.Type
	// reserved: there are reservations, so that each type says whether it is in one.
	reserved bool

	cpu, memory, available, price *prometheus.Desc
}

func newGauges(lists func() [][]*catalog.Type, reserved bool) *gauges {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("karpenter_cloudprovider_instance_type_"+name, help, append([]string{"instance_type"}, labels...), nil)
	}
	return &gauges{
		lists: lists, reserved: reserved,
		cpu:       desc("cpu_cores", "Cores of an instance type."),
		memory:    desc("memory_bytes", "Memory of an instance type."),
		available: desc("offering_available", "Whether an instance type can be launched, by zone and capacity type.", "capacity_type", "zone"),
		price:     desc("offering_price_estimate", "Hourly price of an instance type in dollars, by zone and capacity type.", "capacity_type", "zone"),
	}
}

// Describe sends the descriptions.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.cpu, g.memory, g.available, g.price} {
		ch <- d
	}
}

// place is an offering over all classes: available is 1 if any class can launch it, and price is
// the lowest; infinite: none is known.
type place struct {
	available float64
	price     float64
}

// Collect sends each type once, whatever the number of classes that have it.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	reported := map[string]bool{}
	places := map[catalog.Place]place{}
	for _, types := range g.lists() {
		for _, t := range types {
			if !reported[t.Name] {
				reported[t.Name] = true
				send(g.cpu, float64(t.Capacity[quantity.CPU])/1000, t.Name)
				send(g.memory, float64(t.Capacity[quantity.Memory]), t.Name)
			}
			for i := range t.Offerings {
				merge(places, t.Name, &t.Offerings[i])
				if g.reserved {
					merge(places, t.Name, &catalog.Offering{Zone: t.Offerings[i].Zone, CapacityType: label.Reserved})
				}
			}
		}
	}
	for at, p := range places {
		send(g.available, p.available, at.Type, at.CapacityType, at.Zone)
		if !math.IsInf(p.price, 1) {
			send(g.price, p.price, at.Type, at.CapacityType, at.Zone)
		}
	}
}

func merge(places map[catalog.Place]place, instanceType string, o *catalog.Offering) {
	at := catalog.Place{Type: instanceType, Zone: o.Zone, CapacityType: o.CapacityType}
	p, ok := places[at]
	if !ok {
		p.price = math.Inf(1)
	}
	if o.Available {
		p.available = 1
	}
	if o.Priced {
		p.price = min(p.price, o.PriceHourly)
	}
	places[at] = p
}
