package devices

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

const driver = "gpu.example.com"

func testClasses() map[string]*resourceapi.DeviceClass {
	class := func(name, expression string) *resourceapi.DeviceClass {
		return &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.DeviceClassSpec{Selectors: where(expression)}}
	}
	return map[string]*resourceapi.DeviceClass{
		"gpu":   class("gpu", `device.driver == "gpu.example.com"`),
		"large": class("large", `device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].model == "large"`),
		"nic":   class("nic", `device.driver == "nic.example.com"`),
	}
}

func where(expression string) []resourceapi.DeviceSelector {
	return []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
}

// exactly returns a request for so many devices of a class.
func exactly(name, class string, n int64) resourceapi.DeviceRequest {
	return resourceapi.DeviceRequest{Name: name, Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: n,
	}}
}

func claimOf(requests ...resourceapi.DeviceRequest) resourceapi.ResourceClaimSpec {
	return resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: requests}}
}

// sameNUMA has the devices of a claim be in one NUMA node.
func sameNUMA(c resourceapi.ResourceClaimSpec) resourceapi.ResourceClaimSpec {
	c.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(driver + "/numa"))}}
	return c
}

func all(class string) resourceapi.DeviceRequest {
	r := exactly("all", class, 0)
	r.Exactly.AllocationMode = resourceapi.DeviceAllocationModeAll
	return r
}

func firstOf(names ...string) resourceapi.DeviceRequest {
	r := resourceapi.DeviceRequest{Name: "first"}
	for i, name := range names {
		r.FirstAvailable = append(r.FirstAvailable, resourceapi.DeviceSubRequest{
			Name: fmt.Sprint("sub", i), DeviceClassName: name, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1 + int64(i),
		})
	}
	return r
}

// gpus returns a slice with devices of the given models, in two NUMA nodes by turns.
func gpus(models ...string) resourceapi.ResourceSliceSpec {
	s := resourceapi.ResourceSliceSpec{Driver: driver, Pool: resourceapi.ResourcePool{Name: "gpus", ResourceSliceCount: 1}}
	for i, model := range models {
		s.Devices = append(s.Devices, resourceapi.Device{Name: fmt.Sprint("gpu-", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"model": {StringValue: &model}, "numa": {IntValue: ptr.To(int64(i % 2))}, "uuid": {StringValue: ptr.To(fmt.Sprint("u", i))},
		}})
	}
	return s
}

func nics(n int) resourceapi.ResourceSliceSpec {
	s := resourceapi.ResourceSliceSpec{Driver: "nic.example.com", Pool: resourceapi.ResourcePool{Name: "nics", ResourceSliceCount: 1}}
	for i := range n {
		s.Devices = append(s.Devices, resourceapi.Device{Name: fmt.Sprint("nic-", i)})
	}
	return s
}

// mig returns a slice with a whole device and its two halves, which share what there is of it.
func mig() []resourceapi.ResourceSliceSpec {
	pool := resourceapi.ResourcePool{Name: "gpus", ResourceSliceCount: 2}
	counters := resourceapi.ResourceSliceSpec{Driver: driver, Pool: pool, SharedCounters: []resourceapi.CounterSet{{
		Name: "gpu-0", Counters: map[string]resourceapi.Counter{"slices": {Value: resource.MustParse("2")}},
	}}}
	parts := resourceapi.ResourceSliceSpec{Driver: driver, Pool: pool}
	for name, takes := range map[string]string{"whole": "2", "half-0": "1", "half-1": "1"} {
		parts.Devices = append(parts.Devices, resourceapi.Device{
			Name:             name,
			Attributes:       map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: ptr.To(map[string]string{"2": "large", "1": "small"}[takes])}},
			ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: "gpu-0", Counters: map[string]resourceapi.Counter{"slices": {Value: resource.MustParse(takes)}}}},
		})
	}
	slices.SortFunc(parts.Devices, func(a, b resourceapi.Device) int { return len(a.Name) - len(b.Name) })
	return []resourceapi.ResourceSliceSpec{counters, parts}
}

// shared returns a device that many pods may have a part of.
func shared(amount string) resourceapi.ResourceSliceSpec {
	s := gpus("large")
	s.Devices[0].AllowMultipleAllocations = ptr.To(true)
	s.Devices[0].Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse(amount)}}
	return s
}

func partOf(amount string) resourceapi.ResourceClaimSpec {
	r := exactly("part", "gpu", 1)
	r.Exactly.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse(amount)}}
	return claimOf(r)
}

// TestPodsOnANode says of how many pods with the same claims a node has devices for, alone.
func TestPodsOnANode(t *testing.T) {
	t.Parallel()
	admin := exactly("watch", "gpu", 1)
	admin.Exactly.AdminAccess = ptr.To(true)
	tainted := gpus("large", "large")
	tainted.Devices[0].Taints = []resourceapi.DeviceTaint{{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	four := gpus("large", "large", "large", "large")
	uuid := exactly("one", "gpu", 1)
	uuid.Exactly.Selectors = where(`device.attributes["gpu.example.com"].serial == "x"`)
	for name, tc := range map[string]struct {
		claims  []resourceapi.ResourceClaimSpec
		devices []resourceapi.ResourceSliceSpec
		taken   []string
		pods    int64
		why     bool
	}{
		"one of four":                    {claims: []resourceapi.ResourceClaimSpec{claimOf(exactly("a", "gpu", 1))}, devices: []resourceapi.ResourceSliceSpec{four}, pods: 4},
		"three of four":                  {claims: []resourceapi.ResourceClaimSpec{claimOf(exactly("a", "gpu", 3))}, devices: []resourceapi.ResourceSliceSpec{four}, pods: 1},
		"one of four, one is taken":      {claims: []resourceapi.ResourceClaimSpec{claimOf(exactly("a", "gpu", 1))}, devices: []resourceapi.ResourceSliceSpec{four}, taken: []string{"gpu-1"}, pods: 3},
		"a class that selects":           {claims: []resourceapi.ResourceClaimSpec{claimOf(exactly("a", "large", 1))}, devices: []resourceapi.ResourceSliceSpec{gpus("large", "small", "large")}, pods: 2},
		"two claims":                     {claims: []resourceapi.ResourceClaimSpec{claimOf(exactly("a", "gpu", 1)), claimOf(exactly("a", "gpu", 1))}, devices: []resourceapi.ResourceSliceSpec{four}, pods: 2},
		"of two drivers":                 {claims: []resourceapi.ResourceClaimSpec{claimOf(exactly("a", "gpu", 1), exactly("b", "nic", 1))}, devices: []resourceapi.ResourceSliceSpec{four, nics(3)}, pods: 3},
		"two in one NUMA node":           {claims: []resourceapi.ResourceClaimSpec{sameNUMA(claimOf(exactly("a", "gpu", 2)))}, devices: []resourceapi.ResourceSliceSpec{gpus("a", "a", "a", "a", "a", "a")}, pods: 2},
		"all":                            {claims: []resourceapi.ResourceClaimSpec{claimOf(all("gpu"))}, devices: []resourceapi.ResourceSliceSpec{four}, pods: 1},
		"all of none":                    {claims: []resourceapi.ResourceClaimSpec{claimOf(all("gpu"))}, devices: []resourceapi.ResourceSliceSpec{nics(1)}},
		"a large one, or two":            {claims: []resourceapi.ResourceClaimSpec{claimOf(firstOf("large", "gpu"))}, devices: []resourceapi.ResourceSliceSpec{gpus("large", "small", "small", "small")}, pods: 2},
		"an administrator takes none":    {claims: []resourceapi.ResourceClaimSpec{claimOf(admin)}, devices: []resourceapi.ResourceSliceSpec{gpus("large")}, taken: []string{"gpu-0"}, pods: podsMost},
		"parts that share counters":      {claims: []resourceapi.ResourceClaimSpec{claimOf(exactly("a", "gpu", 1))}, devices: mig(), pods: 1},
		"parts of one whole":             {claims: []resourceapi.ResourceClaimSpec{claimOf(withSelector(exactly("a", "gpu", 1), "small"))}, devices: mig(), pods: 2},
		"parts of memory":                {claims: []resourceapi.ResourceClaimSpec{partOf("3Gi")}, devices: []resourceapi.ResourceSliceSpec{shared("10Gi")}, pods: 3},
		"a tainted device of a new node": {claims: []resourceapi.ResourceClaimSpec{claimOf(exactly("a", "gpu", 1))}, devices: []resourceapi.ResourceSliceSpec{tainted}, pods: 2},
		"an attribute that is not there": {claims: []resourceapi.ResourceClaimSpec{claimOf(uuid)}, devices: []resourceapi.ResourceSliceSpec{four}, why: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, problem := NewDemand(tc.claims, testClasses())
			if problem != "" {
				t.Fatal(problem)
			}
			s := TemplateOf(tc.devices)
			if len(tc.taken) > 0 {
				s = take(s, tc.taken...)
			}
			c := patientAllocator().Compile(noon, []*Demand{d}, []*Supply{s})
			if got := int64(podsWithin(c.Has(s), c.Needs(d))); got != tc.pods {
				t.Errorf("there is room for %d pods, want %d: needs %s, has %s", got, tc.pods, c.Needs(d), c.Has(s))
			}
			if why := c.Why(d); (why != "") != tc.why {
				t.Errorf("why: %q", why)
			}
		})
	}
}

func withSelector(r resourceapi.DeviceRequest, model string) resourceapi.DeviceRequest {
	r.Exactly.Selectors = where(`device.attributes["gpu.example.com"].model == "` + model + `"`)
	return r
}

// take returns the supply with devices of the first driver allocated.
func take(s *Supply, names ...string) *Supply {
	allocated := &Allocated{}
	for _, name := range names {
		allocated.Add(&resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
			{Driver: driver, Pool: s.slices[0].Spec.Pool.Name, Device: name},
		}}})
	}
	return SupplyOf(templateNode, s.slices, allocated)
}

// TestWhichDemandsShareANode: requests for the same devices are counted and share nodes; others over
// the same devices do not, and those over other devices do not matter.
func TestWhichDemandsShareANode(t *testing.T) {
	t.Parallel()
	demand := func(c ...resourceapi.ResourceClaimSpec) *Demand {
		d, problem := NewDemand(c, testClasses())
		if problem != "" {
			t.Fatal(problem)
		}
		return d
	}
	one, two := demand(claimOf(exactly("a", "gpu", 1))), demand(claimOf(exactly("b", "gpu", 2)))
	large, nic := demand(claimOf(exactly("a", "large", 1))), demand(claimOf(exactly("a", "nic", 1)))
	mixed, alike := TemplateOf([]resourceapi.ResourceSliceSpec{gpus("large", "small"), nics(2)}), TemplateOf([]resourceapi.ResourceSliceSpec{gpus("large", "large", "large")})
	a := patientAllocator()
	for name, tc := range map[string]struct {
		demands  []*Demand
		supplies []*Supply
		apart    int // from how many others the first must be
	}{
		"one and two of the same":           {[]*Demand{one, two}, []*Supply{mixed, alike}, 0},
		"any and a large one, all are":      {[]*Demand{one, large}, []*Supply{alike}, 0},
		"any and a large one, some are not": {[]*Demand{one, large, two}, []*Supply{mixed, alike}, 2},
		"another driver":                    {[]*Demand{nic, one, large}, []*Supply{mixed}, 0},
	} {
		c := a.Compile(noon, tc.demands, tc.supplies)
		if got := len(c.Apart(tc.demands[0])); got != tc.apart {
			t.Errorf("%s: apart from %d others, want %d", name, got, tc.apart)
		}
	}
}

// TestPlannedPodsAreAllocated: pods that fit by the amounts get their devices from the allocator, in
// any order.
func TestPlannedPodsAreAllocated(t *testing.T) {
	t.Parallel()
	menu := []resourceapi.ResourceClaimSpec{
		claimOf(exactly("a", "gpu", 1)), claimOf(exactly("a", "gpu", 2)), claimOf(exactly("a", "large", 1)), claimOf(exactly("a", "nic", 1)),
		claimOf(exactly("a", "gpu", 1), exactly("b", "nic", 1)), sameNUMA(claimOf(exactly("a", "gpu", 2))), claimOf(all("gpu")),
		claimOf(firstOf("large", "gpu")), claimOf(withSelector(exactly("a", "gpu", 1), "small")), claimOf(firstOf("nic", "large")),
		sameNUMA(claimOf(exactly("a", "large", 1), withSelector(exactly("b", "gpu", 1), "small"))), partOf("2Gi"), partOf("5Gi"),
	}
	a := patientAllocator()
	rapid.Check(t, func(t *rapid.T) {
		var demands []*Demand
		for range rapid.IntRange(1, 4).Draw(t, "demands") {
			d, problem := NewDemand([]resourceapi.ResourceClaimSpec{rapid.SampledFrom(menu).Draw(t, "claim")}, testClasses())
			if problem != "" {
				t.Fatal(problem)
			}
			demands = append(demands, d)
		}
		var supplies []*Supply
		for range rapid.IntRange(1, 3).Draw(t, "supplies") {
			var specs []resourceapi.ResourceSliceSpec
			switch rapid.IntRange(0, 4).Draw(t, "kind") {
			case 0:
				specs = mig()
			case 1:
				specs = append(specs, shared("10Gi"))
			default:
				specs = append(specs, gpus(rapid.SliceOfN(rapid.SampledFrom([]string{"large", "small"}), 0, 8).Draw(t, "models")...))
			}
			if n := rapid.IntRange(0, 3).Draw(t, "nics"); n > 0 {
				specs = append(specs, nics(n))
			}
			supplies = append(supplies, TemplateOf(specs))
		}
		c := a.Compile(noon, demands, supplies)
		for _, s := range supplies {
			used := quantity.List{}
			var pods []*Demand
			for range 12 {
				d := rapid.SampledFrom(demands).Draw(t, "pod")
				with := used.Plus(c.Needs(d))
				if slices.ContainsFunc(pods, func(o *Demand) bool { return slices.Contains(c.Apart(d), o.Key) }) || !with.Fits(c.Has(s)) {
					continue
				}
				pods, used = append(pods, d), with
			}
			state, order := s, rapid.Permutation(pods).Draw(t, "order")
			for i, d := range order {
				next, ok := a.give(d, state)
				if !ok {
					t.Fatalf("pod %d of %d (%s) gets no devices: needs %v, the node has %v", i, len(order), d, c.Needs(d), c.Has(s))
				}
				state = next
			}
			for _, d := range demands {
				if n, _ := a.count(t.Context(), d, s); len(pods) == 0 && n.pods > 0 && !c.Needs(d).Fits(c.Has(s)) {
					t.Fatalf("%s fits on the empty node, and is refused", d)
				}
			}
		}
	})
}

// give allocates the devices of one pod and returns what is left.
func (a *Allocator) give(d *Demand, s *Supply) (left *Supply, ok bool) {
	allocator, err := structured.NewAllocator(context.Background(), features, s.allocated, d.classes, s.slices, a.expressions)
	if err != nil {
		return nil, false
	}
	results, err := allocator.Allocate(context.Background(), s.node, d.claims)
	if err != nil || results == nil {
		return nil, false
	}
	next := &Supply{node: s.node, slices: s.slices, allocated: cloned(s.allocated)}
	for i := range results {
		for j := range results[i].Devices.Results {
			add(&next.allocated, &results[i].Devices.Results[j])
		}
	}
	return next, true
}

// TestTemplatesAreLearned: what is of one node alone is left out.
func TestTemplatesAreLearned(t *testing.T) {
	t.Parallel()
	slice := func(node string, serial string) []*resourceapi.ResourceSlice {
		spec := gpus("large", "large")
		spec.Pool.Name, spec.NodeName = node+"-pool", &node
		for i := range spec.Devices {
			spec.Devices[i].Attributes["bay"] = resourceapi.DeviceAttribute{StringValue: &serial}
			spec.Devices[i].Taints = []resourceapi.DeviceTaint{{Key: "hot", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
		}
		return []*resourceapi.ResourceSlice{{ObjectMeta: metav1.ObjectMeta{Name: node + "-1"}, Spec: spec}}
	}
	names := func(specs []resourceapi.ResourceSliceSpec) string {
		return fmt.Sprint(specs[0].Pool.Name, slices.Sorted(maps.Keys(specs[0].Devices[0].Attributes)), specs[0].NodeName == nil)
	}
	if got, want := names(Learn("n1", slice("n1", "x"), "", nil)), "template-pool[bay model numa] true"; got != want {
		t.Errorf("of one node: %s, want %s", got, want)
	}
	if got, want := names(Learn("n1", slice("n1", "x"), "n2", slice("n2", "y"))), "template-pool[model numa uuid] true"; got != want {
		t.Errorf("of two nodes: %s, want %s", got, want)
	}
	learned := TemplateOf(Learn("n1", slice("n1", "x"), "", nil))
	if again := TemplateOf(Learn("n2", slice("n2", "x"), "", nil)); again.key != learned.key {
		t.Error("two nodes that are alike give different templates")
	}
	if taints := learned.slices[0].Spec.Devices[0].Taints; len(taints) > 0 {
		t.Errorf("a template has taints: %v", taints)
	}
}

// patientAllocator returns an allocator with more time than any test takes, beside others or not.
func patientAllocator() *Allocator {
	a := NewAllocator()
	a.SearchMost, a.CompileMost = time.Minute, time.Minute
	return a
}
