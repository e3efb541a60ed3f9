package operator

import (
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/dovetail-sh/dovetail/config/crd"
)

// TestOtherDefinitions takes a field from one definition. Kinds that are not needed do not count.
func TestOtherDefinitions(t *testing.T) {
	t.Parallel()
	needed := []schema.GroupVersionKind{
		{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"},
		{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"},
		{Group: "karpenter.k8s.aws", Version: "v1", Kind: "EC2NodeClass"},
	}
	own, err := crd.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		older string
		want  []string
	}{{"", nil}, {"NodePool", []string{"NodePool"}}, {"EC2NodeClass", []string{"EC2NodeClass"}}, {"KWOKNodeClass", nil}} {
		var objects []client.Object
		for _, o := range own {
			if o = o.DeepCopy(); crd.Kind(o) == c.older {
				versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
				unstructured.RemoveNestedField(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec")
				if err := unstructured.SetNestedSlice(o.Object, versions, "spec", "versions"); err != nil {
					t.Fatal(err)
				}
			}
			objects = append(objects, o)
		}
		got, err := otherDefinitions(t.Context(), fake.NewClientBuilder().WithObjects(objects...).Build(), needed)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("with an older %s: %v, %v, want %v", c.older, got, err, c.want)
		}
	}
	if _, err := otherDefinitions(t.Context(), fake.NewClientBuilder().Build(), needed); !apierrors.IsNotFound(err) {
		t.Errorf("without definitions: %v", err)
	}
}
