// Package boot is what happens inside an instance between power-on and its Node: the user
// data is read as the image would read it, the kubelet is configured from it, and the
// Node is what that kubelet reports. User data that the image would choke on is an error:
// such an instance runs, and no Node joins.
//
// Reading order: boot.go, config.go, kubelet.go, then one file an image family.
package boot

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Instance is what the hardware and the metadata service tell.
type Instance struct {
	InstanceID, InstanceType, Arch        string // Arch: x86_64 or arm64
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

// Node returns what the instance's kubelet registers.
func Node(family string, userData []byte, m Instance) (*corev1.Node, error) {
	var c *config
	var err error
	switch {
	case family == AL2:
		c, err = readBootstrap(userData, m)
	case family == AL2023:
		c, err = readNodeConfig(userData, m)
	case family == Bottlerocket:
		c, err = readSettings(userData, m)
	case strings.HasPrefix(family, Windows):
		c, err = readPowershell(userData, m)
	default:
		return nil, fmt.Errorf("boot: the image is of no family that runs a kubelet: %q", family)
	}
	if err != nil {
		return nil, fmt.Errorf("boot %s: %w", family, err)
	}
	if err := c.check(m); err != nil {
		return nil, fmt.Errorf("boot %s: %w", family, err)
	}
	node, err := c.node(family, m)
	if err != nil {
		return nil, fmt.Errorf("boot %s: %w", family, err)
	}
	return node, nil
}

// podsByAddresses is how many pods have an address: one of each interface is its own, and
// two pods are on the instance's.
func (m Instance) podsByAddresses() int {
	if m.ENIs == 0 {
		return 0
	}
	return m.ENIs*(m.Addresses-1) + 2
}
