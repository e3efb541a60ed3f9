// Package nodegroups reads from a cluster what it says of its node groups, without any right in the cloud: the
// labels of Nodes, and the flags and ConfigMaps of Cluster Autoscaler. It also prices what the groups become, and
// says in which order to drain them, and drains them. internal/cloud/aws/nodegroup translates what it reads.
//
// Read cluster.go (what is read), report.go (prices, and the order), then drain.go (what a drain has before it)
// and drainer.go (the drain).
package nodegroups

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/nodegroup"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	// namespace has Cluster Autoscaler's ConfigMaps.
	namespace = "kube-system"
	// deploymentsMax bounds how many Deployments are read at once to find Cluster Autoscaler's.
	deploymentsMax = 500
)

// Read returns what the cluster says, beside what AWS says of groups. Nodes that are of no group are not in it.
// notes say what could not be read.
func Read(ctx context.Context, r client.Reader, nodes []corev1.Node, known []nodegroup.Group) (in nodegroup.Inventory, notes []string, err error) {
	in.Groups = withKnown(groupsOf(nodes, MembershipOf(known)), known)
	in.Autoscaler.Flags, err = flags(ctx, r)
	if err != nil {
		return in, nil, err
	}
	if in.Autoscaler.Flags == nil {
		notes = append(notes, "no Deployment runs an image named cluster-autoscaler, so its flags are not known")
	}
	text, err := configMap(ctx, r, "cluster-autoscaler-priority-expander", "priorities")
	if err == nil && text != "" {
		in.Autoscaler.Priorities, err = nodegroup.ParsePriorities(text)
	}
	if err != nil {
		return in, nil, err
	}
	text, err = configMap(ctx, r, "cluster-autoscaler-status", "status")
	if err != nil {
		return in, nil, err
	}
	status, err := nodegroup.ParseStatus(text)
	switch {
	case text == "":
		notes = append(notes, "there is no ConfigMap kube-system/cluster-autoscaler-status, so sizes of groups are not known")
	case err != nil:
		notes = append(notes, err.Error())
	}
	return in, append(notes, addStatus(&in, status)...), nil
}

// Membership says which Nodes are of which group: by the ids of their instances, else by their labels.
type Membership struct{ byInstance map[string]string }

// MembershipOf returns the membership in groups whose instances AWS has named.
func MembershipOf(known []nodegroup.Group) Membership {
	m := Membership{byInstance: map[string]string{}}
	for i := range known {
		for _, id := range known[i].Instances {
			m.byInstance[id] = known[i].Name
		}
	}
	return m
}

// GroupOf returns the name of the group that a Node is of; empty: of none.
func (m Membership) GroupOf(n *corev1.Node) string {
	if n.Labels[karpenterv1.NodePoolLabelKey] != "" {
		return ""
	}
	id := n.Spec.ProviderID
	return cmp.Or(m.byInstance[id[strings.LastIndexByte(id, '/')+1:]],
		n.Labels["eks.amazonaws.com/nodegroup"], n.Labels["alpha.eksctl.io/nodegroup-name"], n.Labels["kops.k8s.io/instancegroup"])
}

// withKnown returns the groups of a cluster with those that AWS describes as it does, which is more than
// their Nodes say. Labels, taints and image of a group that EKS does not manage are known by its Nodes alone.
func withKnown(groups, known []nodegroup.Group) []nodegroup.Group {
	out := slices.Clone(known)
	for i := range groups {
		seen := &groups[i]
		at := slices.IndexFunc(out, func(m nodegroup.Group) bool { return m.Name == seen.Name })
		if at < 0 {
			out = append(out, *seen)
			continue
		}
		g := &out[at]
		if len(g.Types) == 0 && g.Needs == nil {
			g.Types = seen.Types
		}
		if g.AMIType != "" {
			continue
		}
		g.AMIType = seen.AMIType
		labels := maps.Clone(seen.Labels)
		maps.Copy(labels, g.Labels)
		g.Labels = labels
		for _, t := range seen.Taints {
			if !slices.Contains(g.Taints, t) {
				g.Taints = append(g.Taints, t)
			}
		}
	}
	slices.SortFunc(out, func(a, b nodegroup.Group) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// addStatus adds the sizes of groups. Groups without a node are in the status alone.
func addStatus(in *nodegroup.Inventory, status []nodegroup.Status) (notes []string) {
	for _, s := range status {
		i := slices.IndexFunc(in.Groups, func(g nodegroup.Group) bool {
			return s.Name == g.Name || s.Name == g.ScalingGroup || strings.HasPrefix(s.Name, "eks-"+g.Name+"-") || strings.HasPrefix(s.Name, g.Name+"-")
		})
		if i < 0 {
			notes = append(notes, fmt.Sprintf("group %s has no node, so nothing is known of it but its size (%d to %d): it is not translated", s.Name, s.Min, s.Max))
			continue
		}
		g := &in.Groups[i]
		if g.Backoff = cmp.Or(g.Backoff, s.Backoff); g.ScalingGroup == "" { // else AWS has said its sizes
			g.Min, g.Max, g.Desired = g.Min+s.Min, g.Max+s.Max, s.Desired
		}
	}
	return notes
}

func configMap(ctx context.Context, r client.Reader, name, key string) (string, error) {
	var m corev1.ConfigMap
	err := r.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &m)
	if err = client.IgnoreNotFound(err); err != nil {
		return "", fmt.Errorf("read ConfigMap %s/%s: %w", namespace, name, err)
	}
	return m.Data[key], nil
}

// flags returns the flags of the Deployment that runs Cluster Autoscaler; nil: none does, or Deployments may
// not be read.
func flags(ctx context.Context, r client.Reader) (map[string]string, error) {
	for next, more := "", true; more; more = next != "" {
		var list appsv1.DeploymentList
		err := r.List(ctx, &list, client.Limit(deploymentsMax), client.Continue(next))
		if apierrors.IsForbidden(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read Deployments: %w", err)
		}
		for i := range list.Items {
			for _, c := range list.Items[i].Spec.Template.Spec.Containers {
				if strings.Contains(c.Image, "cluster-autoscaler") {
					return nodegroup.ParseFlags(append(slices.Clone(c.Command), c.Args...)), nil
				}
			}
		}
		next = list.Continue
	}
	return nil, nil
}

// groupsOf returns the groups of Nodes, sorted by name. Labels and taints of a group are those that all its Nodes
// have.
func groupsOf(nodes []corev1.Node, members Membership) []nodegroup.Group {
	groups := map[string]*nodegroup.Group{}
	for i := range nodes {
		n := &nodes[i]
		name := members.GroupOf(n)
		if name == "" {
			continue
		}
		labels, taints := OwnLabels(n), OwnTaints(n)
		g := groups[name]
		if g == nil {
			g = &nodegroup.Group{Name: name, Source: "labels of Nodes, group", Labels: labels, Taints: taints, Spot: isSpot(n), AMIType: amiType(n)}
			groups[name] = g
		}
		maps.DeleteFunc(g.Labels, func(k, v string) bool { return labels[k] != v })
		g.Taints = slices.DeleteFunc(g.Taints, func(t corev1.Taint) bool { return !slices.Contains(taints, t) })
		g.Desired++
		if isSpot(n) != g.Spot {
			g.Share = &nodegroup.Share{}
		}
		for _, set := range []struct {
			list  *[]string
			value string
		}{{&g.Types, n.Labels[corev1.LabelInstanceTypeStable]}, {&g.Zones, n.Labels[corev1.LabelTopologyZone]}} {
			if set.value != "" && !slices.Contains(*set.list, set.value) {
				*set.list = append(*set.list, set.value)
				slices.Sort(*set.list)
			}
		}
	}
	var out []nodegroup.Group
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		out = append(out, *groups[name])
	}
	return out
}

// OwnLabels returns the labels that people gave a Node: those whose domain is of neither Kubernetes nor a cloud.
func OwnLabels(n *corev1.Node) map[string]string {
	labels := map[string]string{}
	for k, v := range n.Labels {
		domain, _, has := strings.Cut(k, "/")
		if has && slices.ContainsFunc([]string{"kubernetes.io", "k8s.io", "amazonaws.com", "k8s.aws", "eksctl.io", "karpenter.sh"}, func(d string) bool {
			return domain == d || strings.HasSuffix(domain, "."+d)
		}) {
			continue
		}
		labels[k] = v
	}
	return labels
}

// OwnTaints returns the taints of a Node that neither Kubernetes nor an autoscaler gave it.
func OwnTaints(n *corev1.Node) (taints []corev1.Taint) {
	for _, t := range n.Spec.Taints {
		if strings.HasPrefix(t.Key, "node.kubernetes.io/") || strings.HasPrefix(t.Key, "node.cloudprovider.kubernetes.io/") ||
			t.Key == translate.ToBeDeletedTaintKey || t.Key == translate.DeletionCandidateTaintKey {
			continue
		}
		taints = append(taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
	}
	return taints
}

func isSpot(n *corev1.Node) bool {
	return n.Labels["eks.amazonaws.com/capacityType"] == "SPOT" || n.Labels["node-lifecycle"] == "spot" || n.Labels["node.kubernetes.io/lifecycle"] == "spot"
}

// amiType returns what EKS would call a Node's image; empty: nobody knows.
func amiType(n *corev1.Node) string {
	arch := map[string]string{"amd64": "x86_64", "arm64": "ARM_64"}[n.Status.NodeInfo.Architecture]
	switch image := n.Status.NodeInfo.OSImage; {
	case arch == "":
		return ""
	case strings.HasPrefix(image, "Amazon Linux 2023"):
		return "AL2023_" + arch + "_STANDARD"
	case strings.HasPrefix(image, "Amazon Linux 2"):
		return "AL2_" + arch
	case strings.HasPrefix(image, "Bottlerocket"):
		return "BOTTLEROCKET_" + arch
	default:
		return ""
	}
}
