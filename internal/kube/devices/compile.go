package devices

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

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
	// isSome: some supply suffices for a pod.
	isSome bool
	// sets are what the requests allow, other than those for administrators. hasSets: there was time to
	// find that out.
	sets    []set
	hasSets bool
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
//
// It takes compileMost at most. A demand that there was no time to count has nothing yet; one whose
// devices there was no time to find may want any, and is put on no node with others. The next Compile
// begins with what there was no time for. now is the time of the snapshot.
//
//nolint:contextcheck,nolintlint // a snapshot is taken without a context; the time is bounded here
func (a *Allocator) Compile(now time.Time, demands []*Demand, supplies []*Supply) *Compiled {
	a.now = now
	ctx, cancel := context.WithTimeout(context.Background(), a.CompileMost)
	defer cancel()
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
	c := comparison{allocator: a, supplies: distinct, keys: slices.Sorted(maps.Keys(distinct))}
	a.searchAll(ctx, all, &c)
	var known, unknown []*compiled
	for _, d := range all {
		switch {
		case !d.isSome:
			countPods(d, nil, has)
		case d.hasSets:
			known = append(known, d)
		default:
			unknown = append(unknown, d)
		}
	}
	for _, group := range groups(known) {
		if !c.countDevices(ctx, group, has) {
			for _, d := range group {
				countPods(d, group, has)
			}
		}
	}
	for _, d := range unknown {
		countPods(d, slices.Concat(known, unknown), has)
		for _, other := range known {
			other.apart = append(other.apart, d.demand.Key)
		}
	}
	for _, s := range supplies {
		out.supplies[s] = has[s.key]
	}
	return out
}

// searchAll counts the pods of all demands, and then finds the devices that they allow, as far as
// there is time.
func (a *Allocator) searchAll(ctx context.Context, all []*compiled, c *comparison) {
	order := slices.SortedFunc(slices.Values(all), func(x, y *compiled) int { return cmp.Compare(x.demand.Key, y.demand.Key) })
	at, _ := slices.BinarySearchFunc(order, a.first, func(d *compiled, key string) int { return cmp.Compare(d.demand.Key, key) })
	order = slices.Concat(order[at:], order[:at])
	var late []string
	for _, d := range order {
		if !a.countAll(ctx, d, c) {
			late = append(late, d.demand.Key)
		}
	}
	for _, d := range order {
		if d.isSome && !a.findSets(ctx, d, c) {
			late = append(late, d.demand.Key)
		}
	}
	if len(late) > 1 && late[0] == order[0].demand.Key {
		late = late[1:] // it had its turn
	}
	if len(late) > 0 {
		a.first = late[0]
	}
}

// countAll counts the pods of a demand on all supplies. It is not ok if there was no time.
func (a *Allocator) countAll(ctx context.Context, d *compiled, c *comparison) (ok bool) {
	ok = true
	for _, key := range c.keys {
		n, known := a.count(ctx, d.demand, c.supplies[key])
		ok = ok && known
		d.counts[key] = n
		if d.isSome = d.isSome || n.pods > 0; n.why != "" {
			d.why = n.why
		}
	}
	if d.isSome {
		d.why = ""
	}
	return ok
}

// findSets finds the devices that a demand allows, on all supplies. It is not ok if there was no time.
func (a *Allocator) findSets(compile context.Context, d *compiled, c *comparison) (ok bool) {
	of := search{demand: d.demand.Key, isSet: true}
	if compile.Err() != nil {
		return false
	}
	if a.isSlow(of) {
		return true
	}
	ctx, cancel := context.WithTimeout(compile, a.SearchMost)
	defer cancel()
	for _, claim := range d.demand.claims {
		for _, r := range requestsOf(&claim.Spec) {
			if !r.isAdmin {
				d.sets = append(d.sets, c.setOf(ctx, d.demand, &r))
			}
		}
	}
	if d.hasSets = ctx.Err() == nil; d.hasSets {
		return true
	}
	return a.aborted(compile, of)
}

// countPods makes a demand a resource of its own, and keeps it from others.
func countPods(c *compiled, others []*compiled, has map[string]quantity.List) {
	name := quantity.DevicePrefix + c.demand.String() + "/" + c.demand.Key
	c.needs = quantity.List{name: 1}
	for key, n := range c.counts {
		has[key][name] = int64(n.pods)
	}
	for _, other := range others {
		if other != c {
			c.apart = append(c.apart, other.demand.Key)
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

func (c *comparison) setOf(ctx context.Context, d *Demand, r *request) set {
	s := set{isKnown: true}
	for _, key := range c.keys {
		found, ok := c.allocator.matches(ctx, d, r, c.supplies[key])
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
func groups(all []*compiled) (divided [][]*compiled) {
	type device struct {
		supply int
		name   string
	}
	owner, in := map[device]int{}, make([]int, len(all)) // in: the group of each demand, by a demand of it
	find := func(i int) int {
		for in[i] != i {
			i = in[i]
		}
		return i
	}
	for i, d := range all {
		in[i] = i
		for _, s := range d.sets {
			for n, names := range s.devices {
				for name := range names {
					if first, ok := owner[device{n, name}]; ok {
						in[find(first)] = find(i)
					}
					owner[device{n, name}] = i
				}
			}
		}
	}
	at := map[int]int{}
	for i, d := range all {
		root := find(i)
		if _, ok := at[root]; !ok {
			at[root] = len(divided)
			divided = append(divided, nil)
		}
		divided[at[root]] = append(divided[at[root]], d)
	}
	return divided
}

// kind is a set of devices that is a resource.
type kind struct {
	set
	name string
}

// countDevices makes each set of devices that the demands of a group ask for a resource. It returns
// false, and has changed nothing, where that would not be exact, or there is no time.
func (c *comparison) countDevices(ctx context.Context, group []*compiled, has map[string]quantity.List) bool {
	var kinds []kind
	needs := make([]quantity.List, len(group))
	for i, g := range group {
		needs[i] = quantity.List{}
		sets := g.sets
		for _, claim := range g.demand.claims {
			for _, r := range requestsOf(&claim.Spec) {
				if !r.isPlain || !sets[0].isKnown || ctx.Err() != nil {
					return false
				}
				s := sets[0]
				sets = sets[1:]
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
