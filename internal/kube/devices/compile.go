package devices

import (
	"maps"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// Compiled is what demands ask and supplies have, in amounts of resources. The resources mean something
// within one Compiled only.
type Compiled struct {
	demands  map[string]*compiled
	supplies map[*Supply]quantity.List
}

// compiled is one demand, as it was compiled.
type compiled struct {
	demand *Demand
	needs  quantity.List
	apart  []string
	counts map[string]count // by key of the supply
	why    string
}

// Needs returns what a pod with the demand takes of the node that it is on.
func (c *Compiled) Needs(d *Demand) quantity.List { return c.demands[d.Key].needs }

// Apart returns the keys of the demands that must not be on a node with this one: both may want the
// same devices, and which of them are left for the one depends on which the other gets.
func (c *Compiled) Apart(d *Demand) []string { return c.demands[d.Key].apart }

// Why says why no supply suffices for the demand, if that is known.
func (c *Compiled) Why(d *Demand) string { return c.demands[d.Key].why }

// Has returns what there is of a supply.
func (c *Compiled) Has(s *Supply) quantity.List { return c.supplies[s] }

// Drivers returns the drivers whose devices a pod with the demand gets of a supply; none: it does not
// suffice.
func (c *Compiled) Drivers(d *Demand, s *Supply) []string {
	if had, ok := c.demands[d.Key]; ok && s != nil {
		return had.counts[s.key].drivers
	}
	return nil
}

// Compile compares every demand with every supply.
//
// Where requests ask for so many devices of a set, and no two of these sets overlap without being
// equal, each set is a resource: nodes have as much of it as devices are free, and any pods may share
// a node. All other demands are counted with the allocator, alone: a resource for each, of which a node
// has as much as it can have pods of the demand. Two such demands over the same devices are not put
// on one node.
func (a *Allocator) Compile(demands []*Demand, supplies []*Supply) *Compiled {
	out := &Compiled{demands: map[string]*compiled{}, supplies: map[*Supply]quantity.List{}}
	var all []*compiled
	for _, d := range demands {
		if out.demands[d.Key] == nil {
			c := &compiled{demand: d, counts: map[string]count{}}
			out.demands[d.Key] = c
			all = append(all, c)
		}
	}
	distinct := map[string]*Supply{}
	for _, s := range supplies {
		distinct[s.key] = s
	}
	has := map[string]quantity.List{}
	for key := range distinct {
		has[key] = quantity.List{}
	}
	for _, c := range all {
		a.countAll(c, distinct)
	}
	c := comparison{allocator: a, supplies: distinct, keys: slices.Sorted(maps.Keys(distinct))}
	for _, group := range c.groups(all) {
		if !c.countDevices(group, has) {
			countPods(group, has)
		}
	}
	for _, s := range supplies {
		out.supplies[s] = has[s.key]
	}
	return out
}

func (a *Allocator) countAll(c *compiled, supplies map[string]*Supply) {
	some := false
	for _, key := range slices.Sorted(maps.Keys(supplies)) {
		n := a.count(c.demand, supplies[key])
		c.counts[key] = n
		if some = some || n.pods > 0; n.why != "" {
			c.why = n.why
		}
	}
	if some {
		c.why = ""
	}
}

// countPods makes each demand of a group a resource of its own.
func countPods(group []*compiled, has map[string]quantity.List) {
	for _, c := range group {
		name := quantity.DevicePrefix + c.demand.String() + "/" + c.demand.Key
		c.needs = quantity.List{name: 1}
		for key, n := range c.counts {
			has[key][name] = int64(n.pods)
		}
		for _, other := range group {
			if other != c {
				c.apart = append(c.apart, other.demand.Key)
			}
		}
	}
}

// comparison compares the devices that requests allow.
type comparison struct {
	allocator *Allocator
	supplies  map[string]*Supply
	keys      []string // of the supplies, sorted
}

// set is the devices that a request allows, by supply.
type set struct {
	devices []map[string]bool
	isKnown bool
}

func (c *comparison) setOf(d *Demand, r *request) set {
	s := set{isKnown: true}
	for _, key := range c.keys {
		found, ok := c.allocator.matches(d, r, c.supplies[key])
		s.devices, s.isKnown = append(s.devices, found), s.isKnown && ok
	}
	return s
}

// equal and meets compare two sets, with the devices of all supplies.
func (s *set) equal(o *set) bool {
	return slices.EqualFunc(s.devices, o.devices, func(a, b map[string]bool) bool { return maps.Equal(a, b) })
}

func (s *set) meets(o *set) bool {
	for i := range s.devices {
		for name := range s.devices[i] {
			if o.devices[i][name] {
				return true
			}
		}
	}
	return false
}

// groups divides the demands into groups that share no devices.
func (c *comparison) groups(all []*compiled) (groups [][]*compiled) {
	type member struct {
		of   *compiled
		sets []set
	}
	var divided [][]member
	for _, d := range all {
		m := member{of: d}
		for _, claim := range d.demand.claims {
			for _, r := range requestsOf(&claim.Spec) {
				if !r.isAdmin {
					m.sets = append(m.sets, c.setOf(d.demand, &r))
				}
			}
		}
		joined := []member{m}
		divided = slices.DeleteFunc(divided, func(group []member) bool {
			if !slices.ContainsFunc(group, func(o member) bool {
				return slices.ContainsFunc(m.sets, func(s set) bool { return slices.ContainsFunc(o.sets, func(t set) bool { return s.meets(&t) }) })
			}) {
				return false
			}
			joined = append(joined, group...)
			return true
		})
		divided = append(divided, joined)
	}
	for _, group := range divided {
		var demands []*compiled
		for _, m := range group {
			demands = append(demands, m.of)
		}
		groups = append(groups, demands)
	}
	return groups
}

// kind is a set of devices that is a resource.
type kind struct {
	set
	name string
}

// countDevices makes each set of devices that the demands of a group ask for a resource. It returns
// false, and has changed nothing, where that would not be exact.
func (c *comparison) countDevices(group []*compiled, has map[string]quantity.List) bool {
	var kinds []kind
	needs := make([]quantity.List, len(group))
	for i, g := range group {
		needs[i] = quantity.List{}
		for _, claim := range g.demand.claims {
			for _, r := range requestsOf(&claim.Spec) {
				s := c.setOf(g.demand, &r)
				if !r.isPlain || !s.isKnown {
					return false
				}
				at := slices.IndexFunc(kinds, func(k kind) bool { return k.equal(&s) })
				if at < 0 {
					if slices.ContainsFunc(kinds, func(k kind) bool { return k.meets(&s) }) {
						return false
					}
					at = len(kinds)
					kinds = append(kinds, kind{s, quantity.DevicePrefix + r.class + "/" + hash(r.class, r.selectors)})
				}
				needs[i].Add(quantity.List{kinds[at].name: r.count})
			}
		}
	}
	free := make([]quantity.List, len(c.keys))
	for s, key := range c.keys {
		free[s] = quantity.List{}
		for _, k := range kinds {
			for name := range k.devices[s] {
				if !c.supplies[key].isTaken(name) {
					free[s][k.name]++
				}
			}
		}
		// The allocator knows more rules, and must come to the same number.
		for i, g := range group {
			if podsWithin(free[s], needs[i]) != g.counts[key].pods {
				return false
			}
		}
	}
	for s, key := range c.keys {
		has[key].Add(free[s])
	}
	for i := range group {
		group[i].needs = needs[i]
	}
	return true
}

// podsWithin returns how many pods with these needs there is enough for.
func podsWithin(free, needs quantity.List) int {
	pods := int64(podsMost)
	for name, n := range needs {
		if n > 0 {
			pods = min(pods, free[name]/n)
		}
	}
	return int(pods)
}

// isTaken reports whether a device, by driver/pool/name, is allocated.
func (s *Supply) isTaken(name string) bool {
	for id := range s.allocated.AllocatedDevices {
		if id.String() == name {
			return true
		}
	}
	return false
}
