package awssim

import (
	"fmt"
	"hash/fnv"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dovetail-sh/dovetail/internal/sim/awssim/boot"
)

const (
	mebibyte = 1 << 20
	gibibyte = 1 << 30
	// keptByHypervisor is the part of a machine's memory that its kernel does not see, and
	// armReservedMiB what arm64 kernels set apart besides.
	keptByHypervisor = 0.075
	armReservedMiB   = 64
)

// join boots the machine and hands its Node to the registrar.
func (s *Sim) join(in *instance, _ time.Time) {
	node, err := boot.Node(in.image.family, in.template.userData, s.booted(in))
	if err != nil {
		in.bootError = err.Error()
		return
	}
	in.node = node.Name
	if s.opts.Registrar != nil {
		s.deferred = append(s.deferred, func() { s.opts.Registrar.Join(node) })
	}
}

// Boot returns what a machine of the type would register, booted by itself from an image
// of the family (package boot's names), with the image's own disks and no more than one
// interface. It is for tables over all types.
func (s *Sim) Boot(instanceType, family string, userData []byte) (*corev1.Node, error) {
	m := s.types.byName[instanceType]
	if m == nil {
		return nil, fmt.Errorf("awssim: there is no instance type %q", instanceType)
	}
	in := &instance{
		id: "i-00000000000000000", machine: m, image: &Image{family: family}, template: &template{data: &form{}},
		subnet: &Subnet{Zone: s.zones[0].Name, zoneID: s.zones[0].ID}, addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, 4})},
	}
	return boot.Node(family, userData, s.booted(in))
}

// InstanceTypes returns the names of all types, in order.
func (s *Sim) InstanceTypes() []string { return slices.Clone(s.types.names) }

// leave tells the registrar that a machine whose Node joined is gone.
func (s *Sim) leave(in *instance) {
	if name := in.node; name != "" && s.opts.Registrar != nil {
		s.deferred = append(s.deferred, func() { s.opts.Registrar.Leave(name) })
	}
}

// booted is what the machine is like from inside.
func (s *Sim) booted(in *instance) boot.Machine {
	m := in.machine
	return boot.Machine{
		InstanceID: in.id, InstanceType: m.name, Arch: m.arch, Zone: in.subnet.Zone, ZoneID: in.subnet.zoneID, Region: s.opts.Region,
		NodeName: in.name(s.opts.Region), Local: in.addresses[0].String(), Cluster: s.opts.Cluster.Name,
		KubeletVersion: fmt.Sprintf("v%s.2-eks-%s", s.opts.Cluster.Version, hashHex([]byte(in.image.ID))[:7]),
		VCPUs:          m.vcpus, MemoryBytes: s.memory(m), ENIs: m.enis + s.opts.Beliefs.MoreInterfaces, Addresses: m.addresses,
		StorageBytes: int64(m.nvmeGB) * 1e9, Volumes: in.volumes(), Devices: in.devices(),
	}
}

// memory is what the kernel sees of a type's memory, in bytes.
func (s *Sim) memory(m *machine) int64 {
	size := m.memoryMiB
	if m.arch == "arm64" {
		size -= armReservedMiB
	}
	kept := int64(math.Ceil(float64(size) * keptByHypervisor))
	seen := (size - kept) * mebibyte
	if e := s.opts.Beliefs.MemoryError; e > 0 {
		h := fnv.New64a()
		fmt.Fprint(h, s.opts.Seed, m.name)
		seen += int64(float64(size*mebibyte) * e * (float64(h.Sum64()%2001)/1000 - 1))
	}
	return seen
}

// volumes are the sizes of the disks by device: the image's, and the template's over them.
func (in *instance) volumes() map[string]int64 {
	out := map[string]int64{"/dev/xvda": 20 * gibibyte}
	switch family := in.image.family; {
	case family == boot.Bottlerocket:
		out = map[string]int64{"/dev/xvda": 4 * gibibyte, "/dev/xvdb": 20 * gibibyte}
	case strings.HasPrefix(family, boot.Windows):
		out = map[string]int64{"/dev/sda1": 50 * gibibyte}
	}
	for _, b := range in.template.data.list("BlockDeviceMapping") {
		if size := b.number(0, "Ebs", "VolumeSize"); size > 0 {
			out[b.text("DeviceName")] = int64(size) * gibibyte
		}
	}
	return out
}

// devices are what the plugins of the machine's devices report.
func (in *instance) devices() corev1.ResourceList {
	m, out := in.machine, corev1.ResourceList{}
	put := func(name corev1.ResourceName, n int) {
		if n > 0 {
			out[name] = *resource.NewQuantity(int64(n), resource.DecimalSI)
		}
	}
	if m.gpuMaker != "" {
		put(corev1.ResourceName(m.gpuMaker+".com/gpu"), m.gpus)
	}
	switch {
	case m.accelerator == "gaudi":
		put("habana.ai/gaudi", m.accelerators)
	case m.accelerators > 0:
		put("aws.amazon.com/neuron", m.accelerators)
		put("aws.amazon.com/neuroncore", m.accelerators*m.neuronCores())
	}
	efas := 0
	for _, nic := range in.template.data.list("NetworkInterface") {
		if strings.HasPrefix(nic.text("InterfaceType"), "efa") {
			efas++
		}
	}
	put("vpc.amazonaws.com/efa", efas)
	return out
}
