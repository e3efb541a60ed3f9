package instance

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

// The drivers whose devices are known before a node is there.
const (
	DriverNVIDIA = "gpu.nvidia.com"
	DriverEFA    = "dra.net"
)

// attributePCIeRoot is the same of devices that are below the same root of PCIe.
const attributePCIeRoot = "resource.kubernetes.io/pcieRoot"

// gpuTable has a line for each model of NVIDIA's GPUs in EC2: its name as the label of the instance
// type has it, and what the driver says of it. The memory is what is left of that of the model, as
// nvidia-smi prints it; where it is empty, EC2's figure counts. What is not known is empty.
//
//go:embed gpus.csv
var gpuTable string

// gpuModel is what is known of a model.
type gpuModel struct {
	product, brand, architecture, compute string
	memoryMiB                             int64
}

// gpuModels returns the models by name, those with less memory first.
//
//nolint:gochecknoglobals // a constant that Go cannot spell
var gpuModels = sync.OnceValue(func() map[string][]gpuModel {
	lines, err := csv.NewReader(strings.NewReader(gpuTable)).ReadAll()
	if err != nil {
		panic("gpus.csv: " + err.Error()) // a test reads it
	}
	out := map[string][]gpuModel{}
	for _, l := range lines[1:] {
		m := gpuModel{product: l[1], brand: l[2], architecture: l[3], compute: l[4]}
		if l[5] != "" {
			if m.memoryMiB, err = strconv.ParseInt(l[5], 10, 64); err != nil {
				panic("gpus.csv: " + err.Error())
			}
		}
		out[l[0]] = append(out[l[0]], m)
	}
	return out
})

// pcieRoots are how many roots of PCIe the devices of a type are below, in the order of their
// numbers and as many below each. Of other types that is not known.
var pcieRoots = map[string]int64{"p5.48xlarge": 8} //nolint:gochecknoglobals // a constant

// Sharing is how claims share a GPU: what the driver was configured to publish. The zero value is
// that they do not.
type Sharing struct {
	isShared bool
	// byMemory: a claim takes memory, all of it unless it says how much.
	byMemory bool
	// shares is how many claims may have a part of one GPU; 0: there is no such limit.
	shares int64
}

// ParseSharing reads the annotation of a class.
func ParseSharing(mode string) (Sharing, error) {
	switch mode {
	case "", "disabled":
		return Sharing{}, nil
	case "memory":
		return Sharing{isShared: true, byMemory: true}, nil
	case "unlimited":
		return Sharing{isShared: true}, nil
	}
	n, err := strconv.ParseInt(mode, 10, 32)
	if err != nil || n < 1 {
		return Sharing{}, fmt.Errorf("%s: %q is none of disabled, memory, unlimited, or a number of shares above zero", awsv1.AnnotationNVIDIASharing, mode)
	}
	return Sharing{isShared: true, shares: n}, nil
}

// IsShared reports whether several claims may have one GPU.
func (s Sharing) IsShared() bool { return s.isShared }

// Slices says of which devices ResourceSlices are made before there is a node.
type Slices struct {
	// NVIDIA and EFA say for which drivers.
	NVIDIA, EFA bool
	Sharing     Sharing
}

// Of returns the ResourceSlices that the drivers publish on a node of the type, a pool of devices for
// each.
func (s Slices) Of(info *types.InstanceTypeInfo, spec *awsv1.EC2NodeClassSpec) []resourceapi.ResourceSliceSpec {
	var out []resourceapi.ResourceSliceSpec
	add := func(driver string, devices []resourceapi.Device) {
		if len(devices) == 0 {
			return
		}
		out = append(out, resourceapi.ResourceSliceSpec{
			Driver: driver, Devices: devices, Pool: resourceapi.ResourcePool{Name: string(info.InstanceType), ResourceSliceCount: 1},
		})
	}
	if s.NVIDIA {
		add(DriverNVIDIA, nvidiaDevices(info, s.Sharing))
	}
	if s.EFA {
		add(DriverEFA, efaDevices(info, spec))
	}
	return out
}

// nvidiaDevices returns the GPUs of a type; none if something is not known that every claim may ask
// for.
func nvidiaDevices(info *types.InstanceTypeInfo, s Sharing) []resourceapi.Device {
	var out []resourceapi.Device
	list := gpus(info)
	for i := range list {
		g := &list[i]
		attributes, memory, ok := nvidiaFacts(g)
		if !ok {
			return nil
		}
		for range gpuCount(g) {
			d := resourceapi.Device{Name: "gpu-" + strconv.Itoa(len(out)), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}}
			for name, value := range attributes {
				d.Attributes[name] = value
			}
			s.apply(&d, memory)
			out = append(out, d)
		}
	}
	setRoots(info, out)
	return out
}

// nvidiaFacts returns what the driver says of a GPU, and its memory. It is not ok if the model, or how
// much memory it has, is not known.
func nvidiaFacts(g *types.GpuDeviceInfo) (attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute, memory resource.Quantity, ok bool) {
	models := gpuModels()[kebab(aws.ToString(g.Name))]
	if aws.ToString(g.Manufacturer) != "NVIDIA" || len(models) == 0 || g.MemoryInfo == nil || aws.ToInt32(g.MemoryInfo.SizeInMiB) <= 0 {
		return nil, memory, false
	}
	mib := int64(aws.ToInt32(g.MemoryInfo.SizeInMiB))
	m := models[0]
	for _, other := range models[1:] {
		if distance(other.memoryMiB, mib) < distance(m.memoryMiB, mib) {
			m = other
		}
	}
	if aws.ToInt32(g.Count) == 0 { // a part of a GPU has a name and a memory of its own
		m.product, m.brand, m.memoryMiB = "", "", 0
	}
	if m.memoryMiB > 0 {
		mib = m.memoryMiB
	}
	attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"type": text("gpu"), "cudaComputeCapability": {VersionValue: &m.compute}}
	for name, value := range map[resourceapi.QualifiedName]string{"productName": m.product, "brand": m.brand, "architecture": m.architecture} {
		if value != "" {
			attributes[name] = text(value)
		}
	}
	return attributes, *resource.NewQuantity(mib*mebibyte, resource.BinarySI), true
}

func distance(a, b int64) int64 { return max(a-b, b-a) }

func text(s string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{StringValue: &s} }

// apply gives a GPU its memory, and the rules by which claims share it.
func (s Sharing) apply(d *resourceapi.Device, memory resource.Quantity) {
	d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: memory}}
	if !s.isShared {
		return
	}
	d.AllowMultipleAllocations = aws.Bool(true)
	least, unless := resource.MustParse("0"), resource.MustParse("0")
	if s.byMemory {
		least, unless = resource.MustParse("1Mi"), memory
	}
	step, most := resource.MustParse("1Mi"), memory
	d.Capacity["memory"] = resourceapi.DeviceCapacity{Value: memory, RequestPolicy: &resourceapi.CapacityRequestPolicy{
		Default: &unless, ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: &least, Max: &most, Step: &step},
	}}
	if s.shares > 0 {
		one, all := *resource.NewQuantity(1, resource.DecimalSI), *resource.NewQuantity(s.shares, resource.DecimalSI)
		d.Capacity["shares"] = resourceapi.DeviceCapacity{Value: all, RequestPolicy: &resourceapi.CapacityRequestPolicy{
			Default: &one, ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: &one, Max: &all},
		}}
	}
}

// efaDevices returns the EFAs of a type. An instance has them if it is launched for a claim of them.
func efaDevices(info *types.InstanceTypeInfo, spec *awsv1.EC2NodeClassSpec) []resourceapi.Device {
	var out []resourceapi.Device
	for i := range efas(info, spec) {
		out = append(out, resourceapi.Device{Name: "efa-" + strconv.FormatInt(i, 10), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"pciDevice": text("Elastic Fabric Adapter (EFA)"), "pciVendor": text("Amazon.com, Inc."), "rdma": {BoolValue: aws.Bool(true)},
		}})
	}
	setRoots(info, out)
	return out
}

// setRoots says which devices are below the same root, if that is known. How the roots are called on a
// node is not.
func setRoots(info *types.InstanceTypeInfo, devices []resourceapi.Device) {
	roots, n := pcieRoots[string(info.InstanceType)], int64(len(devices))
	if roots == 0 || n%roots != 0 {
		return
	}
	for i := range n {
		devices[i].Attributes[attributePCIeRoot] = text("root-" + strconv.FormatInt(i/(n/roots), 10))
	}
}
