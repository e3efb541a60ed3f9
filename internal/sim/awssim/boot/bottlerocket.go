package boot

import (
	"bytes"
	"fmt"
	"maps"

	"github.com/pelletier/go-toml/v2"
)

// settings is Bottlerocket's, as far as it decides what the Node is like.
type settings struct {
	Settings struct {
		Kubernetes struct {
			Endpoint       string              `toml:"api-server"`
			Cluster        string              `toml:"cluster-name"`
			Authority      string              `toml:"cluster-certificate"`
			Labels         map[string]string   `toml:"node-labels"`
			Taints         map[string][]string `toml:"node-taints"`
			MaxPods        *int                `toml:"max-pods"`
			KubeReserved   map[string]string   `toml:"kube-reserved"`
			SystemReserved map[string]string   `toml:"system-reserved"`
			EvictionHard   map[string]string   `toml:"eviction-hard"`
		} `toml:"kubernetes"`
		BootstrapCommands map[string]struct {
			Commands [][]string `toml:"commands"`
		} `toml:"bootstrap-commands"`
	} `toml:"settings"`
}

// readSettings reads user data as Bottlerocket does: TOML. Thresholds that are given
// replace the defaults as a whole; reservations do by key.
func readSettings(userData []byte, m Instance) (*config, error) {
	var s settings
	if err := toml.NewDecoder(bytes.NewReader(userData)).Decode(&s); err != nil {
		return nil, fmt.Errorf("user data: %w", err)
	}
	k := s.Settings.Kubernetes
	c := newConfig(m)
	c.cluster, c.endpoint, c.authority = k.Cluster, k.Endpoint, k.Authority
	maps.Copy(c.labels, k.Labels)
	if k.MaxPods != nil {
		c.maxPods = *k.MaxPods
	}
	c.reservedFor = c.maxPods
	maps.Copy(c.kubeReserved, k.KubeReserved)
	maps.Copy(c.systemReserved, k.SystemReserved)
	if len(k.EvictionHard) > 0 {
		c.evictHard = k.EvictionHard
	}
	for key, values := range k.Taints {
		for _, v := range values {
			t, err := taints(key + "=" + v)
			if err != nil {
				return nil, fmt.Errorf("settings.kubernetes.node-taints: %w", err)
			}
			c.taints = append(c.taints, t...)
		}
	}
	for _, b := range s.Settings.BootstrapCommands {
		for _, words := range b.Commands {
			if len(words) >= 3 && words[0] == "apiclient" && words[1] == "ephemeral-storage" && words[2] == "bind" {
				c.raid0 = true
			}
		}
	}
	return c, nil
}
