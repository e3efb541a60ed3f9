package boot

import corev1 "k8s.io/api/core/v1"

// Instance is what the hardware and the metadata service say of an instance.
type Instance struct {
	InstanceID, InstanceType, Arch        string // Arch: x86_64 or arm64
	BootID                                string // another one after each start
	Zone, ZoneID, Region, NodeName, Local string // Local: its address
	// Cluster is the one whose API server would let the kubelet in; KubeletVersion the image's.
	Cluster, KubeletVersion string
	VCPUs                   int
	// MemoryBytes is what the kernel sees.
	MemoryBytes int64
	// ENIs and Addresses are of the default network card: interfaces, addresses each.
	ENIs, Addresses int
	// StorageBytes is what the instance store has, all together.
	StorageBytes int64
	// Volumes are the sizes in bytes by device name.
	Volumes map[string]int64
	// Devices are what device plugins report.
	Devices corev1.ResourceList
}

// The image families.
const (
	AL2          = "al2"
	AL2023       = "al2023"
	Bottlerocket = "bottlerocket"
	Windows      = "windows" // and a year after it
)

// podsByAddresses is how many pods have an address: one of each interface is its own, and
// two pods are on the instance's.
func (m Instance) podsByAddresses() int {
	if m.ENIs == 0 {
		return 0
	}
	return m.ENIs*(m.Addresses-1) + 2
}
