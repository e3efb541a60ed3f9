package devices

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

const (
	// podsMost is how many pods of one demand are counted on a node.
	podsMost = 128
	// searchMost bounds the time in which the pods of one demand are counted on one node: the search
	// of the allocator may grow with the faculty of the devices. It also bounds the time in which the
	// devices are found that one demand allows.
	searchMost = time.Second
	// slowFor is for how long a demand for which that was too short is not searched for again.
	slowFor = 10 * time.Minute
	// compileMost bounds the time of one Compile: decisions and events wait for it.
	compileMost = 2 * time.Second
	// countsMost and expressionsMost bound what is remembered.
	countsMost, expressionsMost = 50_000, 1_000
)

// features are what kube-scheduler 1.37 has switched on.
var features = structured.Features{ //nolint:gochecknoglobals // a constant
	AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true,
	DeviceBindingAndStatus: true, ConsumableCapacity: true, FractionalCapacityRange: true,
}

// Demand is what one pod claims: ResourceClaims that are still to be allocated. It is never changed.
type Demand struct {
	// Key is equal for demands that ask for the same.
	Key     string
	claims  []*resourceapi.ResourceClaim
	classes classes
}

// classes are the DeviceClasses that a demand names.
type classes map[string]*resourceapi.DeviceClass

// List returns all of them.
func (c classes) List() ([]*resourceapi.DeviceClass, error) {
	return slices.Collect(maps.Values(c)), nil
}

// Get returns one by name.
func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if class := c[name]; class != nil {
		return class, nil
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclasses"), name)
}

// NewDemand returns the demand of a pod with these claims. problem says why they cannot be allocated
// as they are; empty: they can be.
func NewDemand(specs []resourceapi.ResourceClaimSpec, known map[string]*resourceapi.DeviceClass) (d *Demand, problem string) {
	d = &Demand{classes: classes{}}
	var content []any
	for i := range specs {
		name := "claim-" + strconv.Itoa(i)
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: specs[i]}
		d.claims = append(d.claims, claim)
		content = append(content, specs[i])
		for _, r := range requestsOf(&specs[i]) {
			class := known[r.class]
			if class == nil {
				return nil, fmt.Sprintf("DeviceClass %s of request %s is not found", r.class, r.name)
			}
			if d.classes[r.class] == nil {
				d.classes[r.class] = class
				content = append(content, class.Name, class.Spec.Selectors)
			}
		}
	}
	d.Key = hash(content...)
	return d, ""
}

// TakesAll reports whether one of the requests is for all devices that there are.
func (d *Demand) TakesAll() bool {
	return slices.ContainsFunc(d.claims, func(c *resourceapi.ResourceClaim) bool {
		return slices.ContainsFunc(requestsOf(&c.Spec), func(r request) bool { return r.isAll })
	})
}

// String names the DeviceClasses of a demand.
func (d *Demand) String() string { return strings.Join(slices.Sorted(maps.Keys(d.classes)), ",") }

// request is one request of a claim, or one alternative of it.
type request struct {
	name, class string
	selectors   []resourceapi.DeviceSelector
	count       int64
	// isPlain: so many devices are asked for, and nothing more.
	isPlain, isAdmin bool
	isAll            bool // all devices are asked for
}

func requestsOf(spec *resourceapi.ResourceClaimSpec) (all []request) {
	for i := range spec.Devices.Requests {
		r := &spec.Devices.Requests[i]
		if e := r.Exactly; e != nil {
			isAdmin := e.AdminAccess != nil && *e.AdminAccess
			all = append(all, request{
				name: r.Name, class: e.DeviceClassName, selectors: e.Selectors, count: e.Count, isAdmin: isAdmin, isAll: e.AllocationMode == resourceapi.DeviceAllocationModeAll,
				isPlain: e.AllocationMode == resourceapi.DeviceAllocationModeExactCount && !isAdmin && e.Capacity == nil && len(spec.Devices.Constraints) == 0,
			})
		}
		for j := range r.FirstAvailable {
			sub := &r.FirstAvailable[j]
			all = append(all, request{name: r.Name + "/" + sub.Name, class: sub.DeviceClassName, selectors: sub.Selectors, isAll: sub.AllocationMode == resourceapi.DeviceAllocationModeAll})
		}
	}
	return all
}

// Allocator counts, and remembers the counts. It is not safe for concurrent use.
type Allocator struct {
	expressions *cel.Cache
	counts      map[[2]string]count // by demand and supply
	// slow says when a search was aborted because it took too long.
	slow map[search]time.Time
	// now is the time of the present Compile.
	now time.Time
	// first is the key of the demand that comes first in the next Compile: there was no time for it in
	// the last one.
	first string
	// SearchMost bounds one search, CompileMost a Compile. A test that runs beside others allows more than the default.
	SearchMost, CompileMost time.Duration
}

// search is what may take long for a demand: to count pods, or to find the devices that it allows.
type search struct {
	demand string
	isSet  bool
}

// Why a demand has no count on a supply.
const (
	whySlow   = "to search for the devices takes too long; it is tried again ten minutes after the last time"
	whyNoTime = "there was no time yet to search for the devices; the next decision goes on"
)

// count is how many pods of a demand a supply suffices for.
type count struct {
	pods    int
	drivers []string // whose devices the first of them gets
	why     string   // why there are none, if that is known
}

// NewAllocator returns an allocator that remembers nothing yet.
func NewAllocator() *Allocator {
	return &Allocator{
		expressions: cel.NewCache(expressionsMost, cel.Features{EnableConsumableCapacity: true}), counts: map[[2]string]count{},
		slow: map[search]time.Time{}, SearchMost: searchMost, CompileMost: compileMost,
	}
}

// isSlow reports whether such a search took too long lately.
func (a *Allocator) isSlow(s search) bool {
	at, ok := a.slow[s]
	if ok = ok && a.now.Sub(at) < slowFor; !ok {
		delete(a.slow, s)
	}
	return ok
}

// aborted remembers that such a search took too long. It returns false if it was the Compile that had
// no more time: the search may be quick.
func (a *Allocator) aborted(compile context.Context, s search) bool {
	if compile.Err() != nil {
		return false
	}
	if len(a.slow) >= countsMost {
		clear(a.slow)
	}
	a.slow[s] = a.now
	return true
}

// count returns how many pods of the demand the supply suffices for, one after the other, as
// kube-scheduler would place them. It is not ok if there was no time.
func (a *Allocator) count(compile context.Context, d *Demand, s *Supply) (c count, ok bool) {
	key := [2]string{d.Key, s.key}
	if c, ok := a.counts[key]; ok {
		return c, true
	}
	of := search{demand: d.Key}
	if compile.Err() != nil {
		return count{why: whyNoTime}, false
	}
	if a.isSlow(of) {
		return count{why: whySlow}, true
	}
	ctx, cancel := context.WithTimeout(compile, a.SearchMost)
	defer cancel()
	c = a.allocate(ctx, d, s)
	if ctx.Err() != nil && !a.aborted(compile, of) {
		return count{why: whyNoTime}, false
	}
	if len(a.counts) >= countsMost {
		clear(a.counts)
	}
	a.counts[key] = c
	return c, true
}

// allocate counts what count remembers, as far as it comes.
func (a *Allocator) allocate(ctx context.Context, d *Demand, s *Supply) (c count) {
	state := cloned(s.allocated)
	for c.pods < podsMost {
		allocator, err := structured.NewAllocator(ctx, features, state, d.classes, s.slices, a.expressions)
		if err != nil {
			c.why = err.Error()
			return c
		}
		results, err := allocator.Allocate(ctx, s.node, d.claims)
		if err != nil && c.pods == 0 {
			if c.why = err.Error(); ctx.Err() != nil {
				c.why = whySlow
			}
		}
		if err != nil || results == nil {
			return c
		}
		takes := false
		for i := range results {
			for j := range results[i].Devices.Results {
				r := &results[i].Devices.Results[j]
				takes = add(&state, r) || takes
				if c.pods == 0 {
					c.drivers = append(c.drivers, r.Driver)
				}
			}
		}
		if c.pods++; !takes {
			c.pods = podsMost // there is always as much
		}
	}
	return c
}

func cloned(s structured.AllocatedState) structured.AllocatedState {
	return structured.AllocatedState{
		AllocatedDevices: s.AllocatedDevices.Clone(), AllocatedSharedDeviceIDs: s.AllocatedSharedDeviceIDs.Clone(),
		AggregatedCapacity: s.AggregatedCapacity.Clone(),
	}
}

// matches returns the devices of the supply that the request allows, whether they are allocated or
// not. Devices that share counters count as one, under the name of the counters. It is not ok if that
// is not known.
func (a *Allocator) matches(ctx context.Context, d *Demand, r *request, s *Supply) (found map[string]bool, ok bool) {
	found, ok = map[string]bool{}, true
	selectors := slices.Concat(d.classes[r.class].Spec.Selectors, r.selectors)
	for _, slice := range s.slices {
		for i := range slice.Spec.Devices {
			if ctx.Err() != nil {
				return nil, false
			}
			device := &slice.Spec.Devices[i]
			is, known := a.selects(ctx, selectors, slice.Spec.Driver, device)
			if ok = ok && known; !is && known {
				continue
			}
			pool := slice.Spec.Driver + "/" + slice.Spec.Pool.Name + "/"
			for _, c := range device.ConsumesCounters {
				found[pool+"counters/"+c.CounterSet] = true
			}
			found[pool+device.Name] = true
			ok = ok && isPlain(device)
		}
	}
	return found, ok
}

// isPlain reports whether a device is free or allocated as a whole, and to whoever asks.
func isPlain(d *resourceapi.Device) bool {
	return len(d.ConsumesCounters) == 0 && len(d.Taints) == 0 && len(d.BindingConditions) == 0 && (d.AllowMultipleAllocations == nil || !*d.AllowMultipleAllocations)
}

// selects reports whether a device is selected, and whether that is known.
func (a *Allocator) selects(ctx context.Context, selectors []resourceapi.DeviceSelector, driver string, d *resourceapi.Device) (is, known bool) {
	for i := range selectors {
		if selectors[i].CEL == nil {
			return false, false
		}
		expression := a.expressions.GetOrCompile(selectors[i].CEL.Expression)
		if expression.Error != nil {
			return false, false
		}
		is, _, err := expression.DeviceMatches(ctx, cel.Device{
			Driver: driver, AllowMultipleAllocations: d.AllowMultipleAllocations, Attributes: d.Attributes, Capacity: d.Capacity,
		})
		if err != nil {
			return false, false
		}
		if !is {
			return false, true
		}
	}
	return true, true
}
