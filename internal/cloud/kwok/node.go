package kwok

import (
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	// idPrefix is what a providerID is made of, with the Node's name.
	idPrefix = "kwok://"

	// nodeKey marks, as label and as annotation, the Nodes that KWOK plays the kubelet for.
	nodeKey      = "kwok.x-k8s.io/node"
	nodeKeyValue = "fake"
	// partitionKey lets several KWOK controllers share a cluster. We have one partition.
	partitionKey   = "kwok-partition"
	partitionValue = "a"
	// priceKey is where eks-node-viewer looks for a Node's price.
	priceKey = "eks-node-viewer/instance-price"

	// bootIDPrefix is what the boot IDs begin with that reboots give.
	bootIDPrefix = "kwok-"

	tokenKey = kwokv1alpha1.Group + "/launch-token"
	claimKey = kwokv1alpha1.Group + "/launch-claim"
)

// nodeName returns the name of the Node for a claim and token: always the same one.
func nodeName(claim, token string) string {
	sum := hash(token)
	const letters = 36 * 36 * 36 * 36 * 36
	short := strconv.FormatUint(letters+(sum>>32)%letters, 36)[1:] // always five
	return fmt.Sprintf("kwok-%s-%s-%d", labelValue(claim), short, uint32(sum))
}

// labelValue returns the name, or if it is too long for a label, a short form of it.
func labelValue(name string) string {
	if len(name) <= validation.LabelValueMaxLength {
		return name
	}
	const kept = 46
	return fmt.Sprintf("%s-%016x", name[:kept], hash(name))
}

func hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum64()
}

// choose returns the best offering, or one of the same type and price.
func choose(choices []catalog.Choice, token string) catalog.Choice {
	best := choices[0]
	equal := 1
	for equal < len(choices) && choices[equal].Type == best.Type && choices[equal].Offering.Price() == best.Offering.Price() {
		equal++
	}
	return choices[hash(token)%uint64(equal)]
}

// newNode returns the Node that the request gets.
func newNode(name string, r *cloud.LaunchRequest) *corev1.Node {
	choice := choose(r.Choices, r.Token)
	annotations := maps.Clone(r.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, map[string]string{nodeKey: nodeKeyValue, tokenKey: r.Token, claimKey: r.Claim})
	taints := make([]corev1.Taint, 0, len(r.Taints))
	for _, t := range r.Taints {
		taints = append(taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: nodeLabels(choice, r), Annotations: annotations},
		Spec:       corev1.NodeSpec{ProviderID: idPrefix + name, Taints: taints},
		Status: corev1.NodeStatus{
			Phase:       corev1.NodePending,
			Capacity:    translate.ResourceList(choice.Type.Capacity),
			Allocatable: translate.ResourceList(choice.Type.Allocatable()),
		},
	}
}

// nodeLabels returns the claim's labels, overlaid by what the claim leaves no choice
// about, by what the instance is, and by what it is called.
func nodeLabels(choice catalog.Choice, r *cloud.LaunchRequest) map[string]string {
	labels := maps.Clone(r.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for key, requirement := range r.Requirements {
		if value, ok := requirement.Only(); ok {
			labels[key] = value
		}
	}
	offered := choice.Offering.Requirements()
	for key, requirement := range choice.Type.Requirements {
		if _, ok := offered[key]; ok {
			continue
		}
		for _, value := range requirement.Values() { // what is left open gets the first it may be
			if wanted, ok := r.Requirements[key]; !ok || wanted.Allows(value) {
				labels[key] = value
				break
			}
		}
	}
	for key, requirement := range offered {
		labels[key], _ = requirement.Only()
	}
	if choice.Offering.Priced {
		labels[priceKey] = fmt.Sprintf("%f", choice.Offering.PriceHourly)
	}
	labels[nodeKey], labels[partitionKey] = nodeKeyValue, partitionValue
	labels[corev1.LabelHostname] = labelValue(r.Claim)
	return labels
}

// instanceOf returns the instance that the Node is, or will be.
func (p *Provider) instanceOf(node *corev1.Node) cloud.Instance {
	labels := map[string]string{}
	for _, key := range p.facts {
		if value, ok := node.Labels[key]; ok {
			labels[key] = value
		}
	}
	return cloud.Instance{
		ID:          node.Spec.ProviderID,
		Token:       node.Annotations[tokenKey],
		Claim:       node.Annotations[claimKey],
		Labels:      labels,
		Capacity:    translate.Quantities(node.Status.Capacity),
		Allocatable: translate.Quantities(node.Status.Allocatable),
		Created:     node.CreationTimestamp.Time,
		Terminating: node.DeletionTimestamp != nil,
	}
}

// Owns reports whether an instance ID is one of this provider's.
func (*Provider) Owns(instanceID string) bool {
	_, ours := nameOf(instanceID)
	return ours
}

// nameOf returns the name of the Node with that providerID.
func nameOf(instanceID string) (string, bool) { return strings.CutPrefix(instanceID, idPrefix) }
