package boot

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// config is the configuration of a kubelet.
type config struct {
	cluster, endpoint, authority string
	labels                       map[string]string
	taints                       []corev1.Taint
	maxPods, podsPerCore         int
	// reservedFor is how many pods the reservation of memory is for.
	reservedFor                             int
	kubeReserved, systemReserved, evictHard map[string]string
	raid0                                   bool
}

// newConfig is what a kubelet does if nobody says otherwise.
func newConfig(m Instance) *config {
	return &config{
		labels: map[string]string{}, maxPods: m.podsByAddresses(), reservedFor: m.podsByAddresses(),
		kubeReserved: map[string]string{}, systemReserved: map[string]string{},
		evictHard: map[string]string{"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%"},
	}
}

// check returns an error if the kubelet could not start, or the API server would not accept it.
func (c *config) check(m Instance) error {
	switch {
	case c.cluster != m.Cluster:
		return fmt.Errorf("the user data is for cluster %q, the instance's is %q", c.cluster, m.Cluster)
	case c.endpoint == "":
		return fmt.Errorf("the user data has no API server endpoint")
	case c.maxPods < 0 || c.podsPerCore < 0:
		return fmt.Errorf("kubelet: maxPods %d and podsPerCore %d must not be negative", c.maxPods, c.podsPerCore)
	}
	for k := range c.labels {
		if !mayLabel(k) {
			return fmt.Errorf("kubelet: unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: %s", k)
		}
	}
	return nil
}

// mayLabel reports whether a kubelet may give itself the label: in Kubernetes' own domains
// only a few.
func mayLabel(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	if !ok {
		return true
	}
	ours := func(d string) bool {
		return d == "kubernetes.io" || d == "k8s.io" || strings.HasSuffix(d, ".kubernetes.io") || strings.HasSuffix(d, ".k8s.io")
	}
	if !ours(domain) {
		return true
	}
	for _, d := range []string{"kubelet.kubernetes.io", "node.kubernetes.io"} {
		if domain == d || strings.HasSuffix(domain, "."+d) {
			return true
		}
	}
	switch key {
	case corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelOSStable, corev1.LabelArchStable,
		corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion, corev1.LabelInstanceType,
		"beta.kubernetes.io/os", "beta.kubernetes.io/arch":
		return true
	}
	return false
}

// flags applies a kubelet's command line. A flag that holds a map replaces the whole map
// that the configuration file has.
func (c *config) flags(args []string) error {
	for i := 0; i < len(args); i++ {
		name, value, ok := strings.Cut(args[i], "=")
		if !strings.HasPrefix(name, "--") {
			return fmt.Errorf("kubelet: unknown command %q", args[i])
		}
		if !ok && i+1 < len(args) && !strings.HasPrefix(args[i+1], "--") {
			i++
			value = args[i]
		}
		if err := c.flag(name, value); err != nil {
			return fmt.Errorf("kubelet: %s: %w", name, err)
		}
	}
	return nil
}

func (c *config) flag(name, value string) error {
	var err error
	switch name {
	case "--node-labels":
		var labels map[string]string
		labels, err = pairs(value, "=")
		maps.Copy(c.labels, labels)
	case "--register-with-taints":
		c.taints, err = taints(value)
	case "--max-pods":
		c.maxPods, err = strconv.Atoi(value)
	case "--pods-per-core":
		c.podsPerCore, err = strconv.Atoi(value)
	case "--kube-reserved":
		c.kubeReserved, err = pairs(value, "=")
		c.kubeReserved = withZeros(c.kubeReserved)
	case "--system-reserved":
		c.systemReserved, err = pairs(value, "=")
	case "--eviction-hard":
		c.evictHard, err = pairs(value, "<")
	case "--eviction-soft", "--eviction-soft-grace-period", "--eviction-max-pod-grace-period", "--image-gc-high-threshold",
		"--image-gc-low-threshold", "--cpu-cfs-quota", "--cluster-dns", "--cloud-provider", "--node-ip", "--hostname-override":
	default:
		return fmt.Errorf("unknown flag")
	}
	return err
}

// withZeros adds zero for each resource that a reservation does not name, so that no default of
// the image stays.
func withZeros(m map[string]string) map[string]string {
	for _, k := range []string{"cpu", "memory", "ephemeral-storage"} {
		if _, ok := m[k]; !ok {
			m[k] = "0"
		}
	}
	return m
}

// pairs reads a=b,c=d.
func pairs(text, sign string) (map[string]string, error) {
	out := map[string]string{}
	if text == "" {
		return out, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		k, v, ok := strings.Cut(part, sign)
		if !ok || k == "" {
			return nil, fmt.Errorf("%q is not key%svalue", part, sign)
		}
		out[k] = v
	}
	return out, nil
}

// taints reads key=value:Effect,key:Effect.
func taints(text string) ([]corev1.Taint, error) {
	var out []corev1.Taint
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		i := strings.LastIndex(part, ":")
		if i < 0 {
			return nil, fmt.Errorf("taint %q has no effect", part)
		}
		key, value, _ := strings.Cut(part[:i], "=")
		t, err := taint(key, value, part[i+1:])
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

func taint(key, value, effect string) (corev1.Taint, error) {
	switch e := corev1.TaintEffect(effect); e {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		if key != "" {
			return corev1.Taint{Key: key, Value: value, Effect: e}, nil
		}
	}
	return corev1.Taint{}, fmt.Errorf("taint %q=%q:%q is not valid", key, value, effect)
}
