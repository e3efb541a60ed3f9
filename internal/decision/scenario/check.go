package scenario

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Report is what is to be said of a plan.
type Report struct {
	// PricePerHour is what the new nodes cost, by the scenario's prices.
	PricePerHour float64
	// Violations are the rules that the plan breaks. A plan with any may not stand.
	Violations []string
	// WronglyRefused counts refused pods of which one could have been placed by itself.
	WronglyRefused int
}

// Check judges a plan by the rules of the formats, knowing nothing of how it was found.
func Check(s *Scenario, p *Plan) Report {
	j := newJudge(s)
	if p.Format != PlanFormat || p.Scenario != s.Name || p.Mode != "" && p.Mode != "solve" {
		j.violated("the plan is %s of mode %q for %q, not kplan/1 that solves %q", p.Format, p.Mode, p.Scenario, s.Name)
		return j.report
	}
	if !j.gather(p) {
		return j.report
	}
	j.report.PricePerHour = j.price(p)
	for _, h := range j.hosts {
		j.checkHost(h)
	}
	j.checkLimits()
	j.checkRules()
	for g, n := range j.refused {
		if n > 0 && j.couldBePlaced(g) {
			j.report.WronglyRefused += n
		}
	}
	return j.report
}

// judge is one check under way.
type judge struct {
	s        *Scenario
	types    map[string]*InstanceType
	pools    map[string]*NodePool
	hosts    []*host
	refused  []int             // by group
	selected map[string][]bool // by match labels: which groups have them
	report   Report
}

func newJudge(s *Scenario) *judge {
	j := &judge{s: s, types: map[string]*InstanceType{}, pools: map[string]*NodePool{}, selected: map[string][]bool{}}
	for i := range s.InstanceTypes {
		j.types[s.InstanceTypes[i].Name] = &s.InstanceTypes[i]
	}
	for i := range s.NodePools {
		j.pools[s.NodePools[i].Name] = &s.NodePools[i]
	}
	return j
}

// host is a node with all its pods.
type host struct {
	name     string
	typ      *InstanceType
	pool     string
	zone, ct string
	fresh    bool
	bound    map[int]int // pods by group that were there
	added    map[int]int // pods by group that the plan puts there
}

func (j *judge) violated(format string, args ...any) {
	j.report.Violations = append(j.report.Violations, fmt.Sprintf(format, args...))
}

// gather makes the hosts and sees that each pending pod occurs once. It is false when
// the plan names what there is not.
func (j *judge) gather(p *Plan) bool {
	byName := map[string]*host{}
	for i := range j.s.Nodes {
		n := &j.s.Nodes[i]
		h := &host{name: n.Name, typ: j.types[n.Type], pool: n.Pool, zone: n.Zone, ct: n.CapacityType, bound: map[int]int{}, added: map[int]int{}}
		for _, share := range n.Pods {
			h.bound[share.Group()] += share.Count()
		}
		byName[n.Name] = h
		j.hosts = append(j.hosts, h)
	}
	seen := make([]int, len(j.s.PodGroups))
	ok := true
	count := func(where string, shares []Share, into func(g, n int)) {
		for _, share := range shares {
			if g := share.Group(); g < 0 || g >= len(seen) || share.Count() < 0 {
				j.violated("%s has %d pods of group %d", where, share.Count(), g)
				ok = false
				continue
			}
			seen[share.Group()] += share.Count()
			into(share.Group(), share.Count())
		}
	}
	for i, n := range p.NewNodes {
		h := &host{name: fmt.Sprintf("newNodes[%d]", i), typ: j.types[n.Type], pool: n.Pool, zone: n.Zone, ct: n.CapacityType, fresh: true, added: map[int]int{}}
		if h.typ == nil || j.pools[n.Pool] == nil {
			j.violated("%s: there is no type %s or no pool %s", h.name, n.Type, n.Pool)
			ok = false
			continue
		}
		count(h.name, n.Pods, func(g, n int) { h.added[g] += n })
		j.hosts = append(j.hosts, h)
	}
	for _, e := range p.Existing {
		h := byName[e.Node]
		if h == nil {
			j.violated("there is no node %s", e.Node)
			ok = false
			continue
		}
		count("node "+e.Node, e.Pods, func(g, n int) { h.added[g] += n })
	}
	j.refused = make([]int, len(seen))
	count("unschedulable", p.Unschedulable, func(g, n int) { j.refused[g] += n })
	for g, n := range seen {
		if n != j.s.PodGroups[g].N {
			j.violated("group %d has %d pending pods, the plan has %d", g, j.s.PodGroups[g].N, n)
		}
	}
	return ok
}

// price adds up what the new nodes cost and compares it with what the plan says.
func (j *judge) price(p *Plan) float64 {
	sum := 0.0
	for _, h := range j.hosts {
		if !h.fresh {
			continue
		}
		o, ok := h.offering()
		if !ok || o.Unavailable {
			j.violated("%s: %s cannot be launched in %s as %s", h.name, h.typ.Name, h.zone, h.ct)
			continue
		}
		sum += o.Price
	}
	if math.Abs(sum-p.PricePerHour) > 0.001 {
		j.violated("the price is %.4f, the plan says %.4f", sum, p.PricePerHour)
	}
	if p.LowerBoundPerHour > p.PricePerHour+0.001 {
		j.violated("the bound %.4f is above the price %.4f", p.LowerBoundPerHour, p.PricePerHour)
	}
	return sum
}

func (h *host) offering() (Offering, bool) {
	for _, o := range h.typ.Offerings {
		if o.Zone == h.zone && o.CapacityType == h.ct {
			return o, true
		}
	}
	return Offering{}, false
}

// checkHost sees that a host is not overfull and that its labels are right.
func (j *judge) checkHost(h *host) {
	if len(h.added) > 0 {
		if what := j.overfull(h, -1); what != "" {
			j.violated("%s has too little %s", h.name, what)
		}
	}
	if !j.labelled(h, -1) {
		j.violated("%s: its labels do not satisfy its pool or the selectors of its pods", h.name)
	}
}

// overfull names what a host has too little of, with one more pod of a group; -1: none more.
func (j *judge) overfull(h *host, more int) string {
	used := map[string]int64{}
	take := func(g *PodGroup, n int64) {
		used["cpu"] += n * g.CPU
		used["memory"] += n * g.Mem
		used["pods"] += n
		for name, amount := range g.Ext {
			used["ext/"+name] += n * amount
		}
	}
	for _, d := range j.s.DaemonSets {
		take(&PodGroup{CPU: d.CPU, Mem: d.Mem}, 1)
	}
	for g, n := range h.bound {
		take(&j.s.PodGroups[g], int64(n))
	}
	for g, n := range h.added {
		take(&j.s.PodGroups[g], int64(n))
	}
	if more >= 0 {
		take(&j.s.PodGroups[more], 1)
	}
	has := map[string]int64{"cpu": h.typ.CPU - h.typ.ReservedCPU, "memory": h.typ.Mem - h.typ.ReservedMem, "pods": h.typ.Pods}
	for name, amount := range h.typ.Ext {
		has["ext/"+name] = amount
	}
	for name, amount := range used {
		if amount > has[name] {
			return name
		}
	}
	return ""
}

// labelled reports whether one choice of labels satisfies the pool of a new host and the
// selectors of all pods that the plan puts there, and of one more of a group.
func (j *judge) labelled(h *host, more int) bool {
	groups := []int{}
	for g, n := range h.added {
		if n > 0 {
			groups = append(groups, g)
		}
	}
	if more >= 0 {
		groups = append(groups, more)
	}
	keys := map[string]bool{}
	var pool []Requirement
	if h.fresh {
		pool = j.pools[h.pool].Requirements
	}
	for _, r := range pool {
		keys[r.Key] = true
	}
	for _, g := range groups {
		for key := range j.s.PodGroups[g].NodeSelector {
			keys[key] = true
		}
	}
	for key := range keys {
		if !slices.ContainsFunc(h.values(key), func(value string) bool { return j.suits(key, value, pool, groups) }) {
			return false
		}
	}
	return true
}

// missing stands for a label that a node does not have.
const missing = "\x00"

// suits reports whether a value of a key is right for the requirements and the groups.
func (j *judge) suits(key, value string, pool []Requirement, groups []int) bool {
	for _, r := range pool {
		listed := slices.Contains(r.Values, value)
		if r.Key != key {
			continue
		}
		switch r.Op {
		case "In":
			if !listed {
				return false
			}
		case "NotIn":
			if listed {
				return false
			}
		case "Exists":
			if value == missing {
				return false
			}
		default:
			if value != missing {
				return false
			}
		}
	}
	for _, g := range groups {
		if want, ok := j.s.PodGroups[g].NodeSelector[key]; ok && want != value {
			return false
		}
	}
	return true
}

// values returns what a label of the host can be.
func (h *host) values(key string) []string {
	switch key {
	case "topology.kubernetes.io/zone":
		return []string{h.zone}
	case "karpenter.sh/capacity-type":
		return []string{h.ct}
	case "node.kubernetes.io/instance-type":
		return []string{h.typ.Name}
	case "karpenter.sh/nodepool":
		return []string{h.pool}
	case hostnameKey:
		return []string{h.name}
	}
	for _, r := range h.typ.Reqs {
		if r.Key == key && r.Op == "In" && len(r.Values) > 0 {
			return r.Values
		}
	}
	return []string{missing}
}

const hostnameKey = "kubernetes.io/hostname"

// domain returns the host's domain of a key; false: it has none.
func (h *host) domain(key string) (string, bool) {
	value := h.values(key)[0]
	return value, value != missing
}

// checkLimits sees that the pools in which nodes are launched are within their limits.
func (j *judge) checkLimits() {
	for i := range j.s.NodePools {
		p := &j.s.NodePools[i]
		cpu, mem, launches := j.capacityOf(p.Name)
		if launches > 0 && (p.LimitCPU > 0 && cpu > p.LimitCPU || p.LimitMem > 0 && mem > p.LimitMem) {
			j.violated("pool %s is above its limits: cpu %d of %d, memory %d of %d", p.Name, cpu, p.LimitCPU, mem, p.LimitMem)
		}
	}
}

func (j *judge) capacityOf(pool string) (cpu, mem int64, launches int) {
	for _, h := range j.hosts {
		if h.pool != pool {
			continue
		}
		cpu, mem = cpu+h.typ.CPU, mem+h.typ.Mem
		if h.fresh {
			launches++
		}
	}
	return cpu, mem, launches
}

// couldBePlaced reports whether one pod of a group could be placed, all else as it is.
func (j *judge) couldBePlaced(g int) bool {
	for _, h := range j.hosts {
		if j.overfull(h, g) == "" && j.labelled(h, g) && j.mayJoin(g, h) {
			return true
		}
	}
	for i := range j.s.NodePools {
		p := &j.s.NodePools[i]
		cpu, mem, _ := j.capacityOf(p.Name)
		for t := range j.s.InstanceTypes {
			typ := &j.s.InstanceTypes[t]
			if p.LimitCPU > 0 && cpu+typ.CPU > p.LimitCPU || p.LimitMem > 0 && mem+typ.Mem > p.LimitMem {
				continue
			}
			for _, o := range typ.Offerings {
				h := &host{name: missing + "new", typ: typ, pool: p.Name, zone: o.Zone, ct: o.CapacityType, fresh: true}
				if !o.Unavailable && j.overfull(h, g) == "" && j.labelled(h, g) && j.mayJoin(g, h) {
					return true
				}
			}
		}
	}
	return false
}

func byDomain[T any](m map[string]T) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, cmp.Compare[string])
	return keys
}
