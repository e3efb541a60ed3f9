package mirror

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/kube/devices"
)

// deviceIndex holds the objects of dynamic resource allocation, and what is known of the devices that
// instance types have. It is empty unless they are watched.
type deviceIndex struct {
	listeners *listeners
	// provided returns the devices that the provider says an instance type has; nil: it never does.
	provided func(class cloud.ClassRef, instanceType string) []resourceapi.ResourceSliceSpec
	// onRequest are the drivers whose devices a node has only if it is launched for pods that claim some.
	onRequest []string

	classes   map[string]*resourceapi.DeviceClass
	claims    map[types.NamespacedName]*resourceapi.ResourceClaim
	templates map[types.NamespacedName]*resourceapi.ResourceClaimTemplate
	slices    map[string]map[string]*resourceapi.ResourceSlice // node → name
	nodeOf    map[string]string                                // name → node
	// roaming are the names of slices with devices that no node has for itself. They are not planned with.
	roaming map[string]bool

	allocator *devices.Allocator
	// templatesOf are the devices of instance types, as far as nodes showed them or the provider says
	// so. They outlive the nodes.
	templatesOf map[typeOfPool]knownTemplate
	// last is what the last snapshot with pods that claim devices was made with.
	last *deviceView
	// isWanted: such a pod asked for a node when the last snapshot was taken.
	isWanted bool
}

// typeOfPool is an instance type as a NodePool has it.
type typeOfPool struct{ pool, instanceType string }

// knownTemplate is a template, and what it was made from.
type knownTemplate struct {
	// learned is what nodes showed; from says which nodes, empty: none did. said is what the provider
	// said last.
	from          string
	learned, said []resourceapi.ResourceSliceSpec
	// supply is that of a node that is launched for whatever pods claim, unasked that of one launched
	// for pods that claim no devices on request. nil: it has none.
	supply, unasked *devices.Supply
}

func newDeviceIndex(opts *Options, l *listeners) *deviceIndex {
	return &deviceIndex{
		listeners: l, provided: opts.Devices, onRequest: opts.DriversOnRequest,
		classes: map[string]*resourceapi.DeviceClass{}, claims: map[types.NamespacedName]*resourceapi.ResourceClaim{},
		templates: map[types.NamespacedName]*resourceapi.ResourceClaimTemplate{},
		slices:    map[string]map[string]*resourceapi.ResourceSlice{}, nodeOf: map[string]string{}, roaming: map[string]bool{},
		allocator: devices.NewAllocator(), templatesOf: map[typeOfPool]knownTemplate{},
	}
}

func deviceKinds(s *Store) []watched {
	x := s.devices
	return []watched{
		kindOf(s, &resourceapi.DeviceClass{},
			func(c *resourceapi.DeviceClass) { x.classes[c.Name] = c; x.reportWork("deviceclass/" + c.Name) },
			func(c *resourceapi.DeviceClass) { delete(x.classes, c.Name) }),
		kindOf(s, &resourceapi.ResourceClaim{}, x.upsertClaim, x.removeClaim),
		kindOf(s, &resourceapi.ResourceClaimTemplate{},
			func(t *resourceapi.ResourceClaimTemplate) {
				x.templates[client.ObjectKeyFromObject(t)] = t
				x.reportWork("resourceclaimtemplate/" + t.Namespace + "/" + t.Name)
			},
			func(t *resourceapi.ResourceClaimTemplate) { delete(x.templates, client.ObjectKeyFromObject(t)) }),
		kindOf(s, &resourceapi.ResourceSlice{}, x.upsertSlice, x.removeSlice),
	}
}

// FeedDevices subscribes the store to the objects of dynamic resource allocation. Without that pods
// with ResourceClaims must be refused (translate.Vocabulary).
func (s *Store) FeedDevices(ctx context.Context, c cache.Cache) (synced func() bool, err error) {
	var arrived []func() bool
	for _, w := range deviceKinds(s) {
		hasSynced, err := subscribe(ctx, s, c, w)
		if err != nil {
			return nil, err
		}
		arrived = append(arrived, hasSynced)
	}
	return func() bool {
		return !slices.ContainsFunc(arrived, func(ok func() bool) bool { return !ok() })
	}, nil
}

func (x *deviceIndex) upsertClaim(c *resourceapi.ResourceClaim) {
	key := client.ObjectKeyFromObject(c)
	had := x.claims[key]
	x.claims[key] = c
	if had == nil || had.Status.Allocation != nil && c.Status.Allocation == nil {
		x.reportWork("resourceclaim/" + key.String())
	}
}

func (x *deviceIndex) removeClaim(c *resourceapi.ResourceClaim) {
	key := client.ObjectKeyFromObject(c)
	delete(x.claims, key)
	x.reportWork("resourceclaim/" + key.String())
}

func (x *deviceIndex) upsertSlice(s *resourceapi.ResourceSlice) {
	x.dropSlice(s)
	if s.Spec.NodeName == nil {
		x.roaming[s.Name] = true
		return
	}
	node := *s.Spec.NodeName
	if x.slices[node] == nil {
		x.slices[node] = map[string]*resourceapi.ResourceSlice{}
	}
	x.slices[node][s.Name], x.nodeOf[s.Name] = s, node
	x.reportWork("resourceslice/" + node)
}

func (x *deviceIndex) removeSlice(s *resourceapi.ResourceSlice) { x.dropSlice(s) }

func (x *deviceIndex) dropSlice(s *resourceapi.ResourceSlice) {
	delete(x.roaming, s.Name)
	node, had := x.nodeOf[s.Name]
	if !had {
		return
	}
	delete(x.nodeOf, s.Name)
	if delete(x.slices[node], s.Name); len(x.slices[node]) == 0 {
		delete(x.slices, node)
	}
}

// reportWork asks for a new plan if pending pods claim devices.
func (x *deviceIndex) reportWork(id string) {
	if x.isWanted {
		x.listeners.work(id)
	}
}

// slicesOf returns the ResourceSlices of a node, sorted by name.
func (x *deviceIndex) slicesOf(node string) []*resourceapi.ResourceSlice {
	return slices.SortedFunc(maps.Values(x.slices[node]), func(a, b *resourceapi.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })
}

// allocated returns all devices that claims have.
func (x *deviceIndex) allocated() *devices.Allocated {
	all := &devices.Allocated{}
	for _, c := range x.claims {
		if c.Status.Allocation != nil {
			all.Add(c.Status.Allocation)
		}
	}
	return all
}

// learn takes in what nodes show of the devices of their instance types.
func (x *deviceIndex) learn(nodes []*node) {
	samples := map[typeOfPool][]string{}
	for _, n := range nodes {
		v := &n.view
		key := typeOfPool{v.Pool, v.Labels[label.InstanceType]}
		if v.Pool == "" || key.instanceType == "" || !v.Initialized || v.Deleting || len(x.slices[n.name]) == 0 || len(samples[key]) == samplesMost || !x.isComplete(n.name) {
			continue
		}
		samples[key] = append(samples[key], n.name)
	}
	for key, names := range samples {
		from := ""
		for _, name := range names {
			for _, s := range x.slicesOf(name) {
				from += s.Name + "@" + s.ResourceVersion + " "
			}
		}
		if x.templatesOf[key].from == from {
			continue
		}
		other := ""
		if len(names) > 1 {
			other = names[1]
		}
		specs := devices.Learn(names[0], x.slicesOf(names[0]), other, x.slicesOf(other))
		x.templatesOf[key] = knownTemplate{from: from, learned: specs}
	}
}

// samplesMost is how many nodes of an instance type are compared.
const samplesMost = 2

// isComplete reports whether every driver has published all slices of its pools on a node.
func (x *deviceIndex) isComplete(node string) bool {
	of := x.slicesOf(node)
	return !slices.ContainsFunc(of, func(s *resourceapi.ResourceSlice) bool { return !devices.Complete(s.Spec.Driver, of) })
}

// templateOf returns the devices that nodes of an instance type will have; nil: none are known. What
// nodes showed comes before what the provider says, other than of devices on request.
func (x *deviceIndex) templateOf(class cloud.ClassRef, key typeOfPool) *devices.Supply {
	known := x.templatesOf[key]
	var said []resourceapi.ResourceSliceSpec
	if x.provided != nil {
		said = x.provided(class, key.instanceType)
	}
	if len(known.learned)+len(said) == 0 {
		delete(x.templatesOf, key)
		return nil
	}
	if known.supply != nil && areSame(known.said, said) {
		return known.supply
	}
	specs := said
	if len(known.learned) > 0 {
		specs = slices.DeleteFunc(slices.Clone(said), func(s resourceapi.ResourceSliceSpec) bool { return !slices.Contains(x.onRequest, s.Driver) })
		isSaid := func(s resourceapi.ResourceSliceSpec) bool {
			return slices.ContainsFunc(specs, func(o resourceapi.ResourceSliceSpec) bool { return o.Driver == s.Driver })
		}
		specs = append(specs, slices.DeleteFunc(slices.Clone(known.learned), isSaid)...)
	}
	unasked := slices.DeleteFunc(slices.Clone(specs), func(s resourceapi.ResourceSliceSpec) bool { return slices.Contains(x.onRequest, s.Driver) })
	known.said, known.supply, known.unasked = said, devices.TemplateOf(specs), nil
	if len(unasked) > 0 {
		known.unasked = devices.TemplateOf(unasked)
	}
	x.templatesOf[key] = known
	return known.supply
}

// areSame reports whether a provider says the same again. It need not compare what is in one place.
func areSame(a, b []resourceapi.ResourceSliceSpec) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || equality.Semantic.DeepEqual(a, b))
}

// templateOfNode returns the devices that a starting node will have, by what it was launched for.
func (x *deviceIndex) templateOfNode(n *node, template *devices.Supply) *devices.Supply {
	known := x.templatesOf[typeOfPool{n.view.Pool, n.view.Labels[label.InstanceType]}]
	if template == nil || template != known.supply || n.claim == nil {
		return template
	}
	asked := strings.Split(n.claim.object.Annotations[karpenterv1.RequestedDRADriversAnnotationKey], ",")
	if slices.ContainsFunc(x.onRequest, func(driver string) bool { return !slices.Contains(asked, driver) }) {
		return known.unasked
	}
	return template
}

// supplyOf returns the devices of a node: those that it shows, or those that it will show while it is
// starting; nil: none.
func (x *deviceIndex) supplyOf(n *node, template *devices.Supply, allocated *devices.Allocated) *devices.Supply {
	of := x.slicesOf(n.name)
	template = x.templateOfNode(n, template)
	if !n.view.Initialized && template != nil && !template.IsPublished(of) {
		return template
	}
	if len(of) == 0 {
		return nil
	}
	return devices.SupplyOf(n.name, of, allocated)
}

// RequestedDrivers returns the drivers that must have published their devices on a node before the
// pods, for which it is launched, can be bound to it: on all instance types that it may be.
func (s *Store) RequestedDrivers(l *plan.Launch) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	view := s.devices.last
	if view == nil {
		return nil
	}
	var drivers []string
	for _, ref := range l.Pods {
		demand := view.demands[types.UID(ref.UID)]
		if demand == nil {
			continue
		}
		var all []string
		for i, t := range l.Types {
			of := view.compiled.Drivers(demand, view.templates[typeOfPool{l.Pool, t}])
			if i == 0 {
				all = slices.Clone(of)
			}
			all = slices.DeleteFunc(all, func(d string) bool { return !slices.Contains(of, d) })
		}
		drivers = append(drivers, all...)
	}
	slices.Sort(drivers)
	return slices.Compact(drivers)
}

// PublishedDrivers returns the drivers that have published all slices of their pools on a node.
func (s *Store) PublishedDrivers(node string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var drivers []string
	of := s.devices.slicesOf(node)
	for _, slice := range of {
		if !slices.Contains(drivers, slice.Spec.Driver) && devices.Complete(slice.Spec.Driver, of) {
			drivers = append(drivers, slice.Spec.Driver)
		}
	}
	return drivers
}

// hostOf returns the hostname of a node.
func (x *nodeIndex) hostOf(name string) (host string, isKnown bool) {
	n := x.get(name)
	if n == nil {
		return "", false
	}
	return cmp.Or(n.Labels[corev1.LabelHostname], n.Name), true
}
