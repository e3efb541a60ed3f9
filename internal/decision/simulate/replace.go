package simulate

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// ObjectsWithoutPools is Objects for a cluster that may not know NodePools yet, and without them and their
// NodeClaims.
func ObjectsWithoutPools(ctx context.Context, r client.Reader) ([]client.Object, error) {
	var all []client.Object
	for _, empty := range watched() {
		switch empty.(type) {
		case *karpenterv1.NodePoolList, *karpenterv1.NodeClaimList:
			continue
		}
		objects, err := listed(ctx, r, empty, optional(empty))
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

// Replacing returns the case of a cluster of which some nodes are gone: what would be launched for their pods
// from NodePools that are not there yet. Pods that have no node now are not in it, nor are PodDisruptionBudgets.
func Replacing(objects []client.Object, pools []*karpenterv1.NodePool, goes func(*corev1.Node) bool, from Catalog, at time.Time) (Case, error) {
	m, gone := newManifests(), map[string]bool{}
	for _, o := range objects {
		if n, is := o.(*corev1.Node); is && goes(n) {
			gone[n.Name] = true
		}
	}
	for _, np := range pools {
		if err := m.sortIn(np); err != nil {
			return Case{}, err
		}
	}
	for _, o := range objects {
		switch kind := o.(type) {
		case *corev1.Node:
			if gone[kind.Name] {
				continue
			}
		case *policyv1.PodDisruptionBudget:
			continue
		case *corev1.Pod:
			if gone[kind.Spec.NodeName] {
				if !translate.Reschedulable(kind) {
					continue
				}
				p := kind.DeepCopy()
				p.Spec.NodeName, p.Status, p.DeletionTimestamp, p.Finalizers = "", corev1.PodStatus{}, nil, nil
				o = p
			} else if kind.Spec.NodeName == "" {
				continue
			}
		}
		if err := m.sortIn(o); err != nil && !meta.IsNoMatchError(err) {
			return Case{}, err
		}
	}
	return m.question("node groups replaced", from, at)
}
