package testkit

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AwaitDefinition returns when objects of a kind can be created without delay: kube-apiserver holds the first
// ones of a CustomResourceDefinition for two seconds. Nothing is created; the API server must accept the object.
func AwaitDefinition(t testing.TB, c client.Client, object client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), object, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
}
