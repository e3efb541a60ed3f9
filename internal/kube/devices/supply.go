package devices

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
)

// templateNode is the name of the node that templates are of.
const templateNode = "template"

// Supply is the devices of one node, or those that a node of an instance type will have, and which
// of them are allocated. It is never changed.
type Supply struct {
	key       string
	node      *corev1.Node
	slices    []*resourceapi.ResourceSlice
	allocated structured.AllocatedState
}

// SupplyOf returns the devices in the ResourceSlices of a node.
func SupplyOf(node string, slices []*resourceapi.ResourceSlice, allocated *Allocated) *Supply {
	s := &Supply{node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, slices: slices, allocated: allocated.within(slices)}
	s.key = hash(s.specs(), s.taken())
	return s
}

// specs returns what decides about the allocation: everything but the name of the node.
func (s *Supply) specs() []resourceapi.ResourceSliceSpec {
	specs := make([]resourceapi.ResourceSliceSpec, len(s.slices))
	for i, slice := range byName(s.slices) {
		specs[i] = slice.Spec
		specs[i].NodeName = nil
		specs[i].Pool.Name = strings.ReplaceAll(slice.Spec.Pool.Name, s.node.Name, templateNode)
		specs[i].Pool.Generation = 0
	}
	return specs
}

// taken returns which devices are allocated, in part or whole.
func (s *Supply) taken() []string {
	var taken []string
	for id := range s.allocated.AllocatedDevices {
		taken = append(taken, id.String())
	}
	for id := range s.allocated.AllocatedSharedDeviceIDs {
		taken = append(taken, id.String())
	}
	for id, capacity := range s.allocated.AggregatedCapacity {
		for name, amount := range capacity {
			taken = append(taken, id.String()+"/"+string(name)+"="+amount.String())
		}
	}
	for i := range taken {
		taken[i] = strings.ReplaceAll(taken[i], s.node.Name, templateNode)
	}
	slices.Sort(taken)
	return taken
}

func byName(list []*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	return slices.SortedStableFunc(slices.Values(list), func(a, b *resourceapi.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })
}

// hash returns a short text that differs for different values.
func hash(values ...any) string {
	text, err := json.Marshal(values)
	if err != nil {
		panic("devices: " + err.Error()) // types of the API can be written
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// TemplateOf returns the ResourceSlices that a new node of an instance type will have, after the
// driver has published them there. Nodes have no taints of devices at first.
func TemplateOf(specs []resourceapi.ResourceSliceSpec) *Supply {
	node := templateNode
	var list []*resourceapi.ResourceSlice
	count := map[string]int64{}
	for i := range specs {
		count[specs[i].Driver+"/"+specs[i].Pool.Name]++
	}
	for i := range specs {
		slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "template-" + strconv.Itoa(i)}}
		specs[i].DeepCopyInto(&slice.Spec)
		slice.Spec.NodeName, slice.Spec.Pool.Generation = &node, 0
		slice.Spec.Pool.ResourceSliceCount = count[specs[i].Driver+"/"+specs[i].Pool.Name]
		for d := range slice.Spec.Devices {
			slice.Spec.Devices[d].Taints = nil
		}
		list = append(list, slice)
	}
	return SupplyOf(templateNode, list, &Allocated{})
}

// Learn returns a template from the ResourceSlices of a node, without what is of that node alone:
// the attributes in which another node of the type differs. Without another one these are strings
// that are called uuid or serial, and those whose name begins with pci.
func Learn(node string, of []*resourceapi.ResourceSlice, otherNode string, other []*resourceapi.ResourceSlice) []resourceapi.ResourceSliceSpec {
	others := map[string]resourceapi.Device{}
	for _, slice := range other {
		for i := range slice.Spec.Devices {
			d := slice.Spec.Devices[i]
			others[poolKey(slice, otherNode)+"/"+d.Name] = d
		}
	}
	var specs []resourceapi.ResourceSliceSpec
	for _, slice := range byName(of) {
		spec := slice.Spec.DeepCopy()
		spec.NodeName, spec.Pool.Name = nil, strings.ReplaceAll(spec.Pool.Name, node, templateNode)
		for i := range spec.Devices {
			d := &spec.Devices[i]
			twin, hasTwin := others[poolKey(slice, node)+"/"+d.Name]
			maps.DeleteFunc(d.Attributes, func(name resourceapi.QualifiedName, value resourceapi.DeviceAttribute) bool {
				if hasTwin {
					return hash(twin.Attributes[name]) != hash(value)
				}
				return value.StringValue != nil && isOfOneNode(string(name))
			})
		}
		specs = append(specs, *spec)
	}
	return specs
}

func poolKey(slice *resourceapi.ResourceSlice, node string) string {
	return slice.Spec.Driver + "/" + strings.ReplaceAll(slice.Spec.Pool.Name, node, templateNode)
}

// isOfOneNode reports whether an attribute of this name has another value on every node.
func isOfOneNode(name string) bool {
	name = strings.ToLower(name[strings.LastIndex(name, "/")+1:])
	return name == "uuid" || strings.HasPrefix(name, "serial") || strings.HasPrefix(name, "pci")
}

// Complete reports whether a driver has published all slices of its pools on a node, and at least one.
func Complete(driver string, of []*resourceapi.ResourceSlice) bool {
	type pool struct{ generation, want, have int64 }
	pools := map[string]pool{}
	for _, slice := range of {
		if slice.Spec.Driver != driver {
			continue
		}
		p, now := pools[slice.Spec.Pool.Name], slice.Spec.Pool
		switch {
		case p.have == 0 || now.Generation > p.generation:
			p = pool{now.Generation, now.ResourceSliceCount, 1}
		case now.Generation == p.generation:
			p.have++
		}
		pools[slice.Spec.Pool.Name] = p
	}
	for _, p := range pools {
		if p.have < p.want {
			return false
		}
	}
	return len(pools) > 0
}

// IsPublished reports whether the drivers of a template have published all their slices among these.
func (s *Supply) IsPublished(of []*resourceapi.ResourceSlice) bool {
	return !slices.ContainsFunc(s.slices, func(t *resourceapi.ResourceSlice) bool { return !Complete(t.Spec.Driver, of) })
}

// Allocated are the devices that ResourceClaims have.
type Allocated struct{ state structured.AllocatedState }

// Add adds what is allocated to a claim.
func (a *Allocated) Add(allocation *resourceapi.AllocationResult) {
	a.begin()
	for i := range allocation.Devices.Results {
		add(&a.state, &allocation.Devices.Results[i])
	}
}

func (a *Allocated) begin() {
	if a.state.AllocatedDevices == nil {
		a.state = emptyState()
	}
}

func emptyState() structured.AllocatedState {
	return structured.AllocatedState{
		AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}
}

// add adds one device to what is allocated. It reports whether the device, or a part of it, is taken:
// administrators take none.
func add(to *structured.AllocatedState, r *resourceapi.DeviceRequestAllocationResult) (takes bool) {
	if r.AdminAccess != nil && *r.AdminAccess {
		return false
	}
	id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
	if r.ShareID == nil {
		to.AllocatedDevices.Insert(id)
		return true
	}
	to.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, r.ShareID))
	to.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
	return true
}

// within returns the part that is of the slices' pools.
func (a *Allocated) within(of []*resourceapi.ResourceSlice) structured.AllocatedState {
	a.begin()
	part := emptyState()
	for _, slice := range of {
		for i := range slice.Spec.Devices {
			id := structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, slice.Spec.Devices[i].Name)
			if a.state.AllocatedDevices.Has(id) {
				part.AllocatedDevices.Insert(id)
			}
			if capacity, ok := a.state.AggregatedCapacity[id]; ok {
				part.AggregatedCapacity[id] = capacity.Clone()
			}
		}
	}
	for id := range a.state.AllocatedSharedDeviceIDs {
		if _, ok := part.AggregatedCapacity[id.GetDeviceID()]; ok {
			part.AllocatedSharedDeviceIDs.Insert(id)
		}
	}
	return part
}
