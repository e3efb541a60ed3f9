package awssim

import (
	"fmt"
	"hash/fnv"
	"math"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dovetail-sh/dovetail/internal/sim/awssim/boot"
)

const (
	mebibyte = 1 << 20
	gibibyte = 1 << 30
	// keptByHypervisor is the part of an instance's memory that its kernel does not see, and
	// armReservedMiB what arm64 kernels set apart besides.
	keptByHypervisor = 0.075
	armReservedMiB   = 64
)

// join boots the instance and hands its Node to the registrar.
func (s *instances) join(in *instance, _ time.Time) {
	node, err := boot.Node(in.image.family, in.template.userData, s.booted(in))
	if err != nil {
		in.bootError = err.Error()
		return
	}
	in.node, in.bootError = node.Name, ""
	if s.base.opts.Registrar != nil {
		s.base.deferred = append(s.base.deferred, func() { s.base.opts.Registrar.Join(node) })
	}
}

// leave reports to the registrar that an instance whose Node joined is gone.
func (s *instances) leave(in *instance) {
	if name := in.node; name != "" && s.base.opts.Registrar != nil {
		s.base.deferred = append(s.base.deferred, func() { s.base.opts.Registrar.Leave(name) })
	}
}

// booted is what the instance is like from inside.
func (s *instances) booted(in *instance) boot.Instance {
	m := in.typ
	return boot.Instance{
		InstanceID: in.id, BootID: in.bootID(), InstanceType: m.name, Arch: m.arch, Zone: in.subnet.Zone, ZoneID: in.subnet.zoneID, Region: s.base.opts.Region,
		NodeName: in.name(s.base.opts.Region), Local: in.addresses[0].String(), Cluster: s.base.opts.Cluster.Name,
		KubeletVersion: fmt.Sprintf("v%s.2-eks-%s", s.base.opts.Cluster.Version, hashHex([]byte(in.image.ID))[:7]),
		VCPUs:          m.vcpus, MemoryBytes: s.memory(m), ENIs: m.enis + s.base.opts.Beliefs.MoreInterfaces, Addresses: m.addresses,
		StorageBytes: int64(m.nvmeGB) * 1e9, Volumes: in.volumes(), Devices: in.devices(),
	}
}

// memory is what the kernel sees of a type's memory, in bytes.
func (s *instances) memory(m *ec2Type) int64 {
	size := m.memoryMiB
	if m.arch == "arm64" {
		size -= armReservedMiB
	}
	kept := int64(math.Ceil(float64(size) * keptByHypervisor))
	seen := (size - kept) * mebibyte
	if e := s.base.opts.Beliefs.MemoryError; e > 0 {
		h := fnv.New64a()
		fmt.Fprint(h, s.base.opts.Seed, m.name)
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

// devices are what the plugins of the instance's devices report.
func (in *instance) devices() corev1.ResourceList {
	m, out := in.typ, corev1.ResourceList{}
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
