package simulate

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// Present is Objects for any cluster: it may know neither NodePools nor NodeClaims. Only lists are read, and
// CapacityBuffers, which name other objects, are not.
func Present(ctx context.Context, r client.Reader) ([]client.Object, error) {
	var all []client.Object
	for _, empty := range watched() {
		mayLack := optional(empty)
		switch empty.(type) {
		case *autoscalingv1beta1.CapacityBufferList:
			continue
		case *karpenterv1.NodePoolList, *karpenterv1.NodeClaimList:
			mayLack = true
		}
		objects, err := listed(ctx, r, empty, mayLack)
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

// PresentIn returns what Present would have read, from files that have it: those of dovetail snapshot, or of
// kubectl get -o yaml.
func PresentIn(paths []string) ([]client.Object, error) {
	docs, err := documents(paths)
	if err != nil {
		return nil, err
	}
	m, err := readManifests(docs)
	if err != nil {
		return nil, err
	}
	var all []client.Object
	for _, np := range m.pools {
		all = append(all, np)
	}
	all = append(all, m.others...)
	for _, p := range m.pods {
		all = append(all, bare(p))
	}
	return all, nil
}

// Among returns the case of objects as they are.
func Among(objects []client.Object, name string, from Catalog, at time.Time) (Case, error) {
	m := newManifests()
	for _, o := range objects {
		if err := m.sortIn(o); err != nil {
			return Case{}, err
		}
	}
	return m.question(name, from, at)
}
