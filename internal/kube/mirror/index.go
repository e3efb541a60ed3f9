package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// Fields that the cache is indexed by. Pods without a node are found under "".
const (
	PodNodeName        = "spec.nodeName"
	NodeProviderID     = "spec.providerID"
	ClaimProviderID    = "status.providerID"
	AttachmentNodeName = "spec.nodeName"
)

// ErrDuplicate is returned where several objects have the provider ID of one instance.
var ErrDuplicate = errors.New("several objects have the provider ID")

// AddIndexes adds the indexes to the cache by which the functions below find objects. It is
// called once, before the cache starts.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	for _, index := range []struct {
		object client.Object
		field  string
		value  func(client.Object) string
	}{
		{&corev1.Pod{}, PodNodeName, func(o client.Object) string { return o.(*corev1.Pod).Spec.NodeName }},
		{&corev1.Node{}, NodeProviderID, func(o client.Object) string { return o.(*corev1.Node).Spec.ProviderID }},
		{&karpenterv1.NodeClaim{}, ClaimProviderID, func(o client.Object) string { return o.(*karpenterv1.NodeClaim).Status.ProviderID }},
		{&storagev1.VolumeAttachment{}, AttachmentNodeName, func(o client.Object) string { return o.(*storagev1.VolumeAttachment).Spec.NodeName }},
	} {
		values := func(o client.Object) []string { return []string{index.value(o)} }
		if err := indexer.IndexField(ctx, index.object, index.field, values); err != nil {
			return fmt.Errorf("index %T by %s: %w", index.object, index.field, err)
		}
	}
	return nil
}

// NodesOfClaim returns the Nodes that have the provider ID of the claim's instance: one, unless
// it has not joined (none) or something is wrong (several). They share memory with the cache:
// read only.
func NodesOfClaim(ctx context.Context, c client.Reader, claim *karpenterv1.NodeClaim) ([]corev1.Node, error) {
	if claim.Status.ProviderID == "" {
		return nil, nil
	}
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes, client.MatchingFields{NodeProviderID: claim.Status.ProviderID}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list nodes of claim %s: %w", claim.Name, err)
	}
	return nodes.Items, nil
}

// ClaimOfNode returns the claim that the Node's instance was launched for, and nil when
// there is none. ErrDuplicate: there are several. It is the cache's own: read only.
func ClaimOfNode(ctx context.Context, c client.Reader, node *corev1.Node) (*karpenterv1.NodeClaim, error) {
	if node.Spec.ProviderID == "" {
		return nil, nil
	}
	var claims karpenterv1.NodeClaimList
	if err := c.List(ctx, &claims, client.MatchingFields{ClaimProviderID: node.Spec.ProviderID}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list claims of node %s: %w", node.Name, err)
	}
	switch len(claims.Items) {
	case 0:
		return nil, nil
	case 1:
		return &claims.Items[0], nil
	default:
		return nil, fmt.Errorf("claim of node %s: %w", node.Name, ErrDuplicate)
	}
}

// PodsOn returns the pods bound to a node. They are the cache's own: read only.
func PodsOn(ctx context.Context, c client.Reader, node string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.MatchingFields{PodNodeName: node}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list pods on node %s: %w", node, err)
	}
	return pods.Items, nil
}

// PDB is a PodDisruptionBudget and the pods that it selects.
type PDB struct {
	Name     string
	Selector labels.Selector
}

// PDBsIn returns the PodDisruptionBudgets of a namespace, sorted by name. One whose selector
// cannot be read selects no pod.
func PDBsIn(ctx context.Context, c client.Reader, namespace string) ([]PDB, error) {
	var list policyv1.PodDisruptionBudgetList
	if err := c.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list PodDisruptionBudgets in %s: %w", namespace, err)
	}
	var budgets []PDB
	for i := range list.Items {
		if selector, err := metav1.LabelSelectorAsSelector(list.Items[i].Spec.Selector); err == nil {
			budgets = append(budgets, PDB{list.Items[i].Name, selector})
		}
	}
	slices.SortFunc(budgets, func(a, b PDB) int { return strings.Compare(a.Name, b.Name) })
	return budgets, nil
}

// AttachmentsOn returns the volume attachments of a node. They are the cache's own: read only.
func AttachmentsOn(ctx context.Context, c client.Reader, node string) ([]storagev1.VolumeAttachment, error) {
	var attachments storagev1.VolumeAttachmentList
	err := c.List(ctx, &attachments, client.MatchingFields{AttachmentNodeName: node}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list volume attachments of node %s: %w", node, err)
	}
	return attachments.Items, nil
}
