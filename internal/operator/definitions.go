package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/config/crd"
)

// reportDefinitions writes a line if the definitions of the kinds needed are of another version than this
// program: the API server then drops or refuses fields. It is no reason to wait, for most fields are the same.
func reportDefinitions(ctx context.Context, opts *Options) {
	// Not the manager's client: without this right everything works.
	api, err := client.New(opts.Config, client.Options{})
	if err != nil {
		opts.Log.WarnContext(ctx, "definitions were not compared", "error", err)
		return
	}
	other, err := otherDefinitions(ctx, api, requiredKinds(opts))
	switch {
	case apierrors.IsForbidden(err):
		opts.Log.InfoContext(ctx, "definitions were not compared: the right to get them is missing")
	case err != nil:
		opts.Log.WarnContext(ctx, "definitions were not compared", "error", plain(err))
	case len(other) > 0:
		opts.Log.WarnContext(ctx, "definitions are of another version than this program, so fields may be dropped or refused", "kinds", strings.Join(other, ", "),
			"remedy", "upgrade the chart karpenter-crd with this version, or: dovetail crds | kubectl apply --server-side --force-conflicts -f -")
	}
}

// otherDefinitions returns those of the kinds whose definitions differ from ours.
func otherDefinitions(ctx context.Context, api client.Reader, kinds []schema.GroupVersionKind) (other []string, err error) {
	own, err := crd.Definitions()
	if err != nil {
		return nil, err
	}
	for _, want := range own {
		group, _, _ := unstructured.NestedString(want.Object, "spec", "group")
		if !slices.ContainsFunc(kinds, func(k schema.GroupVersionKind) bool { return k.Kind == crd.Kind(want) && k.Group == group }) {
			continue
		}
		has := want.NewEmptyInstance().(*unstructured.Unstructured) //nolint:forcetypeassert // it is of its own type
		if err := api.Get(ctx, client.ObjectKeyFromObject(want), has); err != nil {
			return nil, fmt.Errorf("get definition %s: %w", want.GetName(), err)
		}
		if !crd.SameSchemas(want, has) {
			other = append(other, crd.Kind(want))
		}
	}
	return other, nil
}
