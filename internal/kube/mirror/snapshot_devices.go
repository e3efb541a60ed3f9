package mirror

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/devices"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	// demandsMost is how many different demands one decision is about.
	demandsMost = 64
	// reservedMost is how many pods kube-scheduler lets use one ResourceClaim.
	reservedMost = resourceapi.ResourceClaimReservedForMaxSize
)

// deviceView is what demands and supplies of one snapshot there are.
type deviceView struct {
	compiled  *devices.Compiled
	demands   map[types.UID]*devices.Demand
	templates map[typeOfPool]*devices.Supply
}

// claiming is a pending pod that claims devices.
type claiming struct {
	pod     *pod
	isGoing bool // its node is going, and the devices there with it
	demand  *devices.Demand
	asks    cluster.Devices
	// extended are the extended resources, below zero, for which it gets devices instead.
	extended quantity.List
	// unallocated are its claims that are still to be allocated.
	unallocated []unallocated
}

// unallocated is a claim that is still to be allocated. name is set if other pods may use it too.
type unallocated struct {
	name string
	spec resourceapi.ResourceClaimSpec
}

// addDevices adds to the pending pods what they claim of devices, and to nodes and instance types the
// devices that they have. Without such pods it costs nothing.
func (b *builder) addDevices() {
	x := b.store.devices
	if !b.store.opts.Vocabulary.Devices {
		return
	}
	var pods []*claiming
	extended := b.extendedResources()
	for i := range b.snap.Pending {
		p := b.store.pods.all[types.UID(b.snap.Pending[i].UID)]
		if p == nil {
			continue
		}
		if c := b.read(p, extended); c != nil {
			pods = append(pods, c)
		}
	}
	if x.isWanted = len(pods) > 0; !x.isWanted {
		return
	}
	b.lead(pods)
	view := &deviceView{demands: map[types.UID]*devices.Demand{}, templates: map[typeOfPool]*devices.Supply{}}
	demands := b.demand(pods, view)
	x.learn(b.store.nodes.list())
	supplies := b.supplies(view)
	all := slices.Collect(maps.Values(supplies))
	for _, s := range view.templates {
		all = append(all, s)
	}
	view.compiled = x.allocator.Compile(b.now, demands, all)
	x.last = view
	b.setConstraints(pods, view, len(all) > 0)
	for i := range b.snap.Nodes {
		if s := supplies[b.snap.Nodes[i].Name]; s != nil {
			b.snap.Nodes[i].Allocatable = b.snap.Nodes[i].Allocatable.Plus(view.compiled.Has(s))
		}
	}
	for i := range b.snap.Pools {
		b.snap.Pools[i].Types = withDevices(b.snap.Pools[i].Name, b.snap.Pools[i].Types, view)
	}
}

// withDevices returns the instance types of a pool with the devices that they have.
func withDevices(pool string, of []*catalog.Type, view *deviceView) []*catalog.Type {
	with := slices.Clone(of)
	for i, t := range with {
		supply := view.templates[typeOfPool{pool, t.Name}]
		if supply == nil {
			continue
		}
		has := *t
		has.Capacity = t.Capacity.Plus(view.compiled.Has(supply))
		with[i] = &has
	}
	return with
}

// extendedResources returns the DeviceClasses that stand for extended resources which no node and no
// instance type has otherwise: kube-scheduler makes ResourceClaims for pods that ask for them.
func (b *builder) extendedResources() map[string]*resourceapi.DeviceClass {
	by := map[string]*resourceapi.DeviceClass{}
	for _, c := range b.store.devices.classes {
		by[resourceapi.ResourceDeviceClassPrefix+c.Name] = c
		if c.Spec.ExtendedResourceName == nil {
			continue
		}
		had := by[*c.Spec.ExtendedResourceName]
		if had == nil || cmp.Or(had.CreationTimestamp.Compare(c.CreationTimestamp.Time), cmp.Compare(c.Name, had.Name)) < 0 {
			by[*c.Spec.ExtendedResourceName] = c
		}
	}
	maps.DeleteFunc(by, func(name string, _ *resourceapi.DeviceClass) bool {
		return slices.ContainsFunc(b.snap.Nodes, func(n cluster.Node) bool { return n.Allocatable[name] > 0 }) ||
			slices.ContainsFunc(b.snap.Pools, func(p cluster.Pool) bool {
				return slices.ContainsFunc(p.Types, func(t *catalog.Type) bool { return t.Capacity[name] > 0 })
			})
	})
	return by
}

// read finds out what a pod claims; nil: nothing.
func (b *builder) read(p *pod, extended map[string]*resourceapi.DeviceClass) *claiming {
	c := &claiming{pod: p, isGoing: p.object.Spec.NodeName != ""}
	if len(extended) > 0 {
		b.readExtended(c, extended)
	}
	b.readClaims(c)
	if len(p.object.Spec.ResourceClaims)+len(c.extended) == 0 {
		return nil
	}
	return c
}

// readExtended takes the extended resources that a pod asks for as claims instead. Once kube-scheduler
// has chosen a node, there is a claim.
func (b *builder) readExtended(c *claiming, extended map[string]*resourceapi.DeviceClass) {
	isPinned := false
	if made := c.pod.object.Status.ExtendedResourceClaimStatus; made != nil && !c.isGoing {
		claim := b.store.devices.claims[types.NamespacedName{Namespace: c.pod.object.Namespace, Name: made.ResourceClaimName}]
		if isPinned = claim != nil && claim.Status.Allocation != nil; isPinned {
			b.pin(c, claim)
		}
	}
	requests := c.pod.constraints.constraints.Requests
	for _, name := range requests.Names() {
		class := extended[name]
		if class == nil || requests[name] == 0 {
			continue
		}
		spec := resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "extended", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: class.Name, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: requests[name]},
		}}}}
		if !isPinned {
			c.unallocated = append(c.unallocated, unallocated{"", spec})
		}
		c.extended = c.extended.Plus(quantity.List{name: -requests[name]})
	}
}

// readClaims reads the ResourceClaims of a pod, and their templates.
func (b *builder) readClaims(c *claiming) {
	p, x := c.pod, b.store.devices
	for _, entry := range translate.PodResourceClaims(p.object) {
		if entry.IsUnneeded {
			continue
		}
		claim := x.claims[types.NamespacedName{Namespace: p.object.Namespace, Name: entry.Claim}]
		template := x.templates[types.NamespacedName{Namespace: p.object.Namespace, Name: entry.Template}]
		switch {
		case claim != nil && claim.Status.Allocation != nil && !c.isGoing:
			b.pin(c, claim)
		case claim != nil && entry.Template == "":
			c.unallocated = append(c.unallocated, unallocated{claim.Name, claim.Spec})
		case claim != nil:
			c.unallocated = append(c.unallocated, unallocated{"", claim.Spec})
		case template != nil:
			c.unallocated = append(c.unallocated, unallocated{"", template.Spec.Spec})
		case entry.Template != "":
			c.asks.Invalid = fmt.Sprintf("ResourceClaimTemplate %s is not found", entry.Template)
		default:
			c.asks.Invalid = fmt.Sprintf("ResourceClaim %s is not found", entry.Claim)
		}
	}
}

// pin keeps a pod where an allocated claim of it can be used.
func (b *builder) pin(c *claiming, claim *resourceapi.ResourceClaim) {
	where := translate.AllocatedWhere(claim.Status.Allocation.NodeSelector, b.store.nodes.hostOf)
	if c.asks.Terms != nil {
		where = cluster.Meet(c.asks.Terms, where)
	}
	isReserved := slices.ContainsFunc(claim.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool { return r.UID == c.pod.object.UID })
	switch c.asks.Terms = where; {
	case len(where) == 0:
		c.asks.Invalid = fmt.Sprintf("ResourceClaim %s has devices where no node is", claim.Name)
	case !isReserved && len(claim.Status.ReservedFor) >= reservedMost:
		c.asks.Invalid = fmt.Sprintf("ResourceClaim %s is used by %d pods, which is the most", claim.Name, reservedMost)
	}
}

// lead has the oldest pod lead for each claim that several share: the claim is allocated for it, and
// the others follow it to its node.
func (b *builder) lead(pods []*claiming) {
	type key struct{ namespace, claim string }
	leader := map[key]*claiming{}
	slices.SortFunc(pods, func(a, b *claiming) int { return byAge(a.pod, b.pod) })
	for _, c := range pods {
		c.unallocated = slices.DeleteFunc(c.unallocated, func(u unallocated) bool {
			k := key{c.pod.object.Namespace, u.name}
			switch first := leader[k]; {
			case u.name == "" || c.asks.Invalid != "":
				return false
			case first == nil:
				leader[k] = c
				return false
			default:
				if !slices.Contains(first.asks.Leads, u.name) {
					first.asks.Leads = append(first.asks.Leads, u.name)
				}
				c.asks.Follows = append(c.asks.Follows, u.name)
				return true
			}
		})
		if c.asks.Invalid != "" || len(c.unallocated) == 0 {
			continue
		}
		var specs []resourceapi.ResourceClaimSpec
		for _, u := range c.unallocated {
			specs = append(specs, u.spec)
		}
		c.demand, c.asks.Invalid = devices.NewDemand(specs, b.store.devices.classes)
		if c.demand != nil && c.demand.TakesAll() && len(b.store.devices.roaming) > 0 {
			c.asks.Invalid = "a ResourceClaim asks for all devices while there are some that no node has for itself, which is not planned for"
		}
	}
}

// demand returns the demands of the pods, which are sorted by age: the first ones, if there are more
// than a decision can be about.
func (b *builder) demand(pods []*claiming, view *deviceView) []*devices.Demand {
	byKey := map[string]*devices.Demand{}
	for _, c := range pods {
		if c.asks.Invalid != "" || c.demand == nil {
			continue
		}
		if byKey[c.demand.Key] == nil {
			if len(byKey) == demandsMost {
				c.asks.Invalid = fmt.Sprintf("pods with %d other sets of ResourceClaims come first", demandsMost)
				continue
			}
			byKey[c.demand.Key] = c.demand
		}
		view.demands[c.pod.object.UID] = c.demand
	}
	return slices.SortedFunc(maps.Values(byKey), func(a, b *devices.Demand) int { return cmp.Compare(a.Key, b.Key) })
}

func byAge(a, b *pod) int {
	return cmp.Or(a.object.CreationTimestamp.Compare(b.object.CreationTimestamp.Time), byName(a, b))
}

// supplies returns the devices of nodes, and adds those of instance types to the view.
func (b *builder) supplies(view *deviceView) map[string]*devices.Supply {
	x, allocated := b.store.devices, b.store.devices.allocated()
	for _, np := range b.store.pools.managed() {
		for _, t := range b.store.pools.types[ClassOfPool(np)].types {
			key := typeOfPool{np.Name, t.Name}
			if s := x.templateOf(ClassOfPool(np), key); s != nil {
				view.templates[key] = s
			}
		}
	}
	supplies := map[string]*devices.Supply{}
	for _, n := range b.store.nodes.list() {
		if n.view.Deleting || n.view.InFlight != nil {
			continue
		}
		template := view.templates[typeOfPool{n.view.Pool, n.view.Labels[label.InstanceType]}]
		if s := x.supplyOf(n, template, allocated); s != nil {
			supplies[n.view.Name] = s
		}
	}
	return supplies
}

// setConstraints gives the pods the constraints that follow from their claims. Pods that ask for the
// same share them.
func (b *builder) setConstraints(pods []*claiming, view *deviceView, hasSupplies bool) {
	type variant struct {
		of   *cluster.Constraints
		asks string
	}
	shared, at := map[variant]*cluster.Constraints{}, map[string]int{}
	for i := range b.snap.Pending {
		at[b.snap.Pending[i].UID] = i
	}
	for _, c := range pods {
		c.asks.Needs = c.extended
		if d := view.demands[c.pod.object.UID]; d != nil {
			c.asks.Needs, c.asks.Demand, c.asks.Apart = view.compiled.Needs(d).Plus(c.extended), d.Key, view.compiled.Apart(d)
			switch why := view.compiled.Why(d); {
			case why != "":
				c.asks.Invalid = "the ResourceClaims cannot be allocated: " + why
			case !hasSupplies:
				c.asks.Invalid = "no instance type is known to have devices, and no node has any"
			}
		}
		p := &b.snap.Pending[at[string(c.pod.object.UID)]]
		key := variant{p.Constraints, fmt.Sprint(c.asks)}
		if shared[key] == nil {
			shared[key] = p.Constraints.WithDevices(&c.asks)
		}
		p.Constraints = shared[key]
	}
}

// held returns the constraints of a pod for the question whether it can be moved by choice.
func (b *builder) held(p *pod, constraints *cluster.Constraints) *cluster.Constraints {
	if !b.store.opts.Vocabulary.Devices || !translate.ClaimsDevices(p.object) || constraints.Invalid != "" {
		return constraints
	}
	return p.constraints.held(constraints)
}

// held returns the constraints of a pod with devices, which is not moved by choice.
func (sh *sharedConstraints) held(constraints *cluster.Constraints) *cluster.Constraints {
	if sh.isHeld == nil || sh.heldFrom != constraints {
		with := *constraints
		with.Invalid = translate.HeldByDevices
		sh.isHeld, sh.heldFrom = &with, constraints
	}
	return sh.isHeld
}
