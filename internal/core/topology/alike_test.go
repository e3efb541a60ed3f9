package topology_test

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// TestAlikePlaces: rules answer the same for places of one zone, unless they ask about
// hostnames, one of the places does not count, or its domain is undetermined.
func TestAlikePlaces(t *testing.T) {
	t.Parallel()
	term := func(key string) []cluster.PodTerm {
		return []cluster.PodTerm{{Key: key, Selector: selectsWeb(), Namespaces: []string{""}}}
	}
	both := cluster.Rules{Spread: []cluster.Spread{{Key: label.Zone, MaxSkew: 1, Selector: selectsWeb()}}, AntiAffinity: term(label.Hostname)}
	for name, c := range map[string]struct {
		rules             cluster.Rules
		inZone, elsewhere bool
	}{
		"none":                      {cluster.Rules{}, true, true},
		"spread over zones":         {cluster.Rules{Spread: both.Spread}, true, false},
		"with others in a zone":     {cluster.Rules{Affinity: term(label.Zone)}, true, false},
		"apart from others by zone": {cluster.Rules{AntiAffinity: term(label.Zone)}, true, false},
		"apart by host":             {cluster.Rules{AntiAffinity: term(label.Hostname)}, false, false},
		"both":                      {both, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := webAndRival(c.rules)
			place := func(zone, host string) *topology.Place {
				p := &topology.Place{}
				for k, key := range l.Keys() {
					p.Domain = append(p.Domain, l.Domain(k, map[string]string{label.Zone: zone, label.Hostname: host}[key]))
				}
				return p
			}
			one, next, far := place("a", "one"), place("a", "next"), place("b", "far")
			if l.Alike(0, one, next) != c.inZone || l.Alike(0, one, far) != c.elsewhere {
				t.Errorf("in its zone: %t, elsewhere: %t", l.Alike(0, one, next), l.Alike(0, one, far))
			}
			if next.May = make([][]int32, l.Groups()); l.Alike(0, one, next) {
				t.Error("nobody knows where it will be")
			}
			next.May, next.Counts = nil, make([]bool, l.Groups())
			if len(c.rules.Spread) > 0 && l.Alike(0, one, next) {
				t.Error("it does not count")
			}
		})
	}
}

// TestSumIsOfCountsThatMatterToNewNodes: the Sum changes with the counts of zones, and not with
// those of hosts.
func TestSumIsOfCountsThatMatterToNewNodes(t *testing.T) {
	t.Parallel()
	for key, differs := range map[string]bool{label.Zone: true, label.Hostname: false} {
		l := webAndRival(cluster.Rules{Spread: []cluster.Spread{{Key: key, MaxSkew: 1, Selector: selectsWeb()}}})
		a, b := &topology.Place{Domain: []int32{l.NewDomain(0)}}, &topology.Place{Domain: []int32{l.NewDomain(0)}}
		l.Present(a)
		l.Present(b)
		l.Count(0, a, 1, 0)
		before := l.Sum(0, 0)
		l.Count(0, a, -1, 0)
		l.Count(0, b, 1, 0)
		if (l.Sum(0, 0) != before) != differs {
			t.Errorf("%s: a pod moved, and the sum went from %x to %x", key, before, l.Sum(0, 0))
		}
	}
}
