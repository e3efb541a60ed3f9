// Package boot is what happens inside an instance between power-on and its Node: the user
// data is read as the image would read it, the kubelet is configured from it, and the
// Node is what that kubelet reports. User data that the image would choke on is an error:
// such an instance runs, and no Node joins.
//
// Reading order: instance.go, boot.go, config.go, kubelet.go, then one file an image family.
package boot

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
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
