package boot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// part is one part of user data.
type part struct {
	kind    string // media type
	content []byte
}

// partsMax bounds how many parts user data may have.
const partsMax = 100

// mimeParts splits user data. Without MIME headers it is one part, of no kind.
func mimeParts(userData []byte) ([]part, error) {
	head := string(userData[:min(len(userData), 64)])
	if !strings.HasPrefix(head, "MIME-Version:") && !strings.HasPrefix(head, "Content-Type:") {
		return []part{{"", userData}}, nil
	}
	message, err := mail.ReadMessage(bytes.NewReader(userData))
	if err != nil {
		return nil, fmt.Errorf("user data: %w", err)
	}
	kind, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil {
		return nil, fmt.Errorf("user data: Content-Type: %w", err)
	}
	if !strings.HasPrefix(kind, "multipart/") {
		b, err := io.ReadAll(message.Body)
		return []part{{kind, b}}, err
	}
	var parts []part
	for r := multipart.NewReader(message.Body, params["boundary"]); len(parts) < partsMax; {
		p, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			return parts, nil
		}
		if err != nil {
			return nil, fmt.Errorf("user data: %w", err)
		}
		kind, _, err := mime.ParseMediaType(p.Header.Get("Content-Type"))
		if err != nil {
			return nil, fmt.Errorf("user data: part %d: Content-Type: %w", len(parts), err)
		}
		b, err := io.ReadAll(p)
		if err != nil {
			return nil, fmt.Errorf("user data: part %d: %w", len(parts), err)
		}
		parts = append(parts, part{kind, b})
	}
	return nil, fmt.Errorf("user data: more than %d parts", partsMax)
}

// nodeConfig is nodeadm's, as far as it decides what the Node is like.
type nodeConfig struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		Cluster struct {
			Name      string `json:"name"`
			Endpoint  string `json:"apiServerEndpoint"`
			Authority string `json:"certificateAuthority"`
			CIDR      string `json:"cidr"`
		} `json:"cluster"`
		Kubelet struct {
			Config map[string]json.RawMessage `json:"config"`
			Flags  []string                   `json:"flags"`
		} `json:"kubelet"`
		Instance struct {
			LocalStorage struct {
				Strategy string `json:"strategy"`
			} `json:"localStorage"`
		} `json:"instance"`
	} `json:"spec"`
}

// readNodeConfig reads user data as AL2023's nodeadm does: all NodeConfigs, in order, the
// later ones over the earlier.
func readNodeConfig(userData []byte, m Instance) (*config, error) {
	parts, err := mimeParts(userData)
	if err != nil {
		return nil, err
	}
	c := newConfig(m)
	merged := map[string]json.RawMessage{}
	found, cidr := false, ""
	var flags []string
	for _, p := range parts {
		if p.kind != "application/node.eks.aws" && (p.kind != "" || !bytes.Contains(p.content, []byte("node.eks.aws"))) {
			continue
		}
		found = true
		var n nodeConfig
		if err := yaml.Unmarshal(p.content, &n); err != nil {
			return nil, fmt.Errorf("NodeConfig: %w", err)
		}
		if n.APIVersion != "node.eks.aws/v1alpha1" || n.Kind != "NodeConfig" {
			return nil, fmt.Errorf("NodeConfig: %s %s is not node.eks.aws/v1alpha1 NodeConfig", n.APIVersion, n.Kind)
		}
		later(&c.cluster, n.Spec.Cluster.Name)
		later(&c.endpoint, n.Spec.Cluster.Endpoint)
		later(&c.authority, n.Spec.Cluster.Authority)
		later(&cidr, n.Spec.Cluster.CIDR)
		flags = append(flags, n.Spec.Kubelet.Flags...)
		c.raid0 = c.raid0 || n.Spec.Instance.LocalStorage.Strategy == "RAID0"
		if err := mergeJSON(merged, n.Spec.Kubelet.Config); err != nil {
			return nil, err
		}
	}
	if !found {
		return nil, fmt.Errorf("no NodeConfig in the user data")
	}
	if c.authority == "" || cidr == "" {
		return nil, fmt.Errorf("NodeConfig: spec.cluster lacks certificateAuthority or cidr")
	}
	if err := c.file(merged); err != nil {
		return nil, err
	}
	var args []string
	for _, f := range flags {
		words, err := shellWords(f)
		if err != nil {
			return nil, fmt.Errorf("NodeConfig: kubelet.flags: %w", err)
		}
		args = append(args, words...)
	}
	return c, c.flags(args)
}

func later(field *string, value string) {
	if value != "" {
		*field = value
	}
}

// mergeJSON puts a later configuration over an earlier one; objects are merged by key.
func mergeJSON(into, from map[string]json.RawMessage) error {
	for k, v := range from {
		var old, fresh map[string]json.RawMessage
		if json.Unmarshal(into[k], &old) == nil && json.Unmarshal(v, &fresh) == nil && old != nil && fresh != nil {
			maps.Copy(old, fresh)
			b, err := json.Marshal(old)
			if err != nil {
				return err
			}
			v = b
		}
		into[k] = v
	}
	return nil
}

// file applies a kubelet configuration file over nodeadm's: maps are merged by key.
func (c *config) file(fields map[string]json.RawMessage) error {
	var f struct {
		MaxPods        *int              `json:"maxPods"`
		PodsPerCore    int               `json:"podsPerCore"`
		KubeReserved   map[string]string `json:"kubeReserved"`
		SystemReserved map[string]string `json:"systemReserved"`
		EvictionHard   map[string]string `json:"evictionHard"`
		Taints         []corev1.Taint    `json:"registerWithTaints"`
	}
	b, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return fmt.Errorf("kubelet configuration: %w", err)
	}
	if f.MaxPods != nil {
		c.maxPods = *f.MaxPods
	}
	c.podsPerCore = f.PodsPerCore
	maps.Copy(c.kubeReserved, f.KubeReserved)
	maps.Copy(c.systemReserved, f.SystemReserved)
	maps.Copy(c.evictHard, f.EvictionHard)
	for _, t := range f.Taints {
		checked, err := taint(t.Key, t.Value, string(t.Effect))
		if err != nil {
			return fmt.Errorf("kubelet configuration: registerWithTaints: %w", err)
		}
		c.taints = append(c.taints, checked)
	}
	return nil
}
