package userdata

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/family"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// Node is what the user data of an instance is made from.
type Node struct {
	Family  family.Family
	Cluster Cluster
	// Labels and Taints that the Node joins with; that it has not registered is added.
	Labels map[string]string
	Taints []cluster.Taint
	// Kubelet is the configuration of its kubelet.
	Kubelet kubelet.Settings
	// StorePolicy says what becomes of the instance's own disks; nil: they are left alone.
	StorePolicy *awsv1.InstanceStorePolicy
	// Custom is the user's own part.
	Custom string
	// ImageVersion has the version of a Bottlerocket image somewhere in it: that of the
	// alias, or the image's name. Empty: not known.
	ImageVersion string
}

// Cluster is where an instance is to join.
type Cluster struct {
	Name, Endpoint string
	// CA is the certificate of the API server, in base64.
	CA string
	// CIDR is the range of the cluster's services.
	CIDR string
	// DNS is the address of the cluster's DNS; empty: not known.
	DNS string
}

// nodeLabels returns the labels that a kubelet may put on its own Node. The API server
// refuses those of Kubernetes' own domains; the rest of them is put on by registration.
func (n *Node) nodeLabels() map[string]string {
	out := map[string]string{karpenterv1.NodeDoNotSyncTaintsLabelKey: karpenterv1.LabelValueTrue}
	for key, value := range n.Labels {
		domain, _, prefixed := strings.Cut(key, "/")
		restricted := slices.ContainsFunc([]string{"kubernetes.io", "k8s.io"}, func(d string) bool {
			return domain == d || strings.HasSuffix(domain, "."+d)
		})
		if !prefixed || !restricted {
			out[key] = value
		}
	}
	return out
}

// taints returns the taints that the Node joins with.
func (n *Node) taints() []cluster.Taint {
	unregistered := karpenterv1.UnregisteredTaint()
	if slices.ContainsFunc(n.Taints, func(t cluster.Taint) bool { return t.Key == unregistered.Key }) {
		return n.Taints
	}
	return append(slices.Clip(n.Taints), cluster.Taint{Key: unregistered.Key, Value: unregistered.Value, Effect: string(unregistered.Effect)})
}

// dns returns the address of the DNS that pods use; empty: not known.
func (n *Node) dns() string {
	if len(n.Kubelet.ClusterDNS) > 0 {
		return n.Kubelet.ClusterDNS[0]
	}
	return n.Cluster.DNS
}

// kubeletArgs returns the flags of a kubelet that is configured by flags alone.
func (n *Node) kubeletArgs() []string {
	k := &n.Kubelet
	args := []string{fmt.Sprintf("--node-labels=%q", pairs(n.nodeLabels(), "="))}
	var taints []string
	for _, t := range n.taints() {
		taints = append(taints, t.Key+"="+t.Value+":"+t.Effect)
	}
	args = append(args, fmt.Sprintf("--register-with-taints=%q", strings.Join(taints, ",")), fmt.Sprintf("--max-pods=%d", k.MaxPods))
	if k.PodsPerCore > 0 {
		args = append(args, fmt.Sprintf("--pods-per-core=%d", k.PodsPerCore))
	}
	for _, list := range []struct {
		flag   string
		values map[string]string
		middle string
	}{
		{"system-reserved", k.SystemReserved, "="},
		{"kube-reserved", k.KubeReserved, "="},
		{"eviction-hard", n.evictionHard(), "<"},
		{"eviction-soft", k.EvictionSoft, "<"},
		{"eviction-soft-grace-period", k.EvictionSoftGracePeriod, "="},
	} {
		if len(list.values) > 0 {
			args = append(args, fmt.Sprintf("--%s=%q", list.flag, pairs(list.values, list.middle)))
		}
	}
	if k.EvictionMaxPodGracePeriod > 0 {
		args = append(args, fmt.Sprintf("--eviction-max-pod-grace-period=%d", k.EvictionMaxPodGracePeriod))
	}
	if p := k.ImageGCHighThresholdPercent; p != nil {
		args = append(args, fmt.Sprintf("--image-gc-high-threshold=%d", *p))
	}
	if p := k.ImageGCLowThresholdPercent; p != nil {
		args = append(args, fmt.Sprintf("--image-gc-low-threshold=%d", *p))
	}
	if k.CPUCFSQuota != nil {
		args = append(args, "--cpu-cfs-quota="+strconv.FormatBool(*k.CPUCFSQuota))
	}
	return args
}

// evictionHard returns the class's thresholds together with the kubelet's defaults for the
// others: for a kubelet that takes thresholds as a whole, one that is not named would be off.
func (n *Node) evictionHard() map[string]string {
	if len(n.Kubelet.EvictionHard) == 0 {
		return nil
	}
	whole := map[string]string{"memory.available": "100Mi", "nodefs.available": "10%"}
	if n.Family.WindowsBuild == "" { // which has no inodes
		whole["nodefs.inodesFree"] = "5%"
	}
	maps.Copy(whole, n.Kubelet.EvictionHard)
	return whole
}

// pairs returns the entries of a map, in the order of their keys.
func pairs(list map[string]string, middle string) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(list)) {
		out = append(out, key+middle+list[key])
	}
	return strings.Join(out, ",")
}
