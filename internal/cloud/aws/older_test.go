package aws

import (
	"testing"
	"testing/synctest"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// TestClassesOfV1beta1 has a class that names a family and no image, as v1beta1 allows, and a NodePool
// whose kubelet takes the place of that of its class.
func TestClassesOfV1beta1(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		class := newClass("family")
		class.Spec.AMISelectorTerms, class.Spec.AMIFamily = nil, new("AL2023")
		if err := w.api.Create(t.Context(), class); err != nil {
			t.Fatal(err)
		}
		p := w.provider(t)
		if _, err := p.classes.reconcile(t.Context(), reconcile.Request{NamespacedName: named("family")}); err != nil {
			t.Fatal(err)
		}
		if err := w.api.Get(t.Context(), named("family"), class); err != nil || len(class.Status.AMIs) == 0 {
			t.Errorf("the class has not found its images at once: %v", err)
		}
		w.ready(t, p, "family")
		w.ready(t, p, "default")
		hashes := map[string]string{}
		for _, name := range []string{"family", "default"} {
			var c awsv1.EC2NodeClass
			if err := w.api.Get(t.Context(), named(name), &c); err != nil {
				t.Fatal(err)
			}
			hashes[name] = c.Annotations[awsv1.AnnotationHash]
			if name == "family" && (len(c.Spec.AMISelectorTerms) != 0 || *c.Spec.AMIFamily != "AL2023" || len(c.Status.AMIs) == 0) {
				t.Errorf("the class has spec %+v and images %v", c.Spec, c.Status.AMIs)
			}
		}
		if hashes["family"] != hashes["default"] || hashes["family"] == "" {
			t.Errorf("hashes are %v: the two mean the same", hashes)
		}

		pods := func(ref cloud.ClassRef) (of int64) {
			types, err := p.Types(t.Context(), ref)
			if err != nil {
				t.Fatal(err)
			}
			for _, it := range types {
				if it.Name == "m5.large" {
					of = it.Capacity[quantity.Pods]
				}
			}
			return of
		}
		ref := cloud.ClassRef{Group: awsv1.Group, Kind: classKind, Name: "default"}
		own := ref
		own.Kubelet = `{"maxPods":42}`
		if with, without := pods(own), pods(ref); with != 42 || without != 29 {
			t.Errorf("an m5.large takes %d pods with the pool's kubelet and %d with the class's, want 42 and 29", with, without)
		}
		requests := requestsOf(t, p, own, 1, onDemand)
		results := p.Launch(t.Context(), requests)
		if len(results) != 1 || results[0].Err != nil {
			t.Fatalf("launch: %+v", results)
		}
		if got := results[0].Instance.Capacity[quantity.Pods]; got != 42 {
			t.Errorf("the instance takes %d pods, want 42", got)
		}
		if drift, err := p.Drifted(t.Context(), own, results[0].Instance.ID); drift != "" || err != nil {
			t.Errorf("the instance has drifted at once: %q, %v", drift, err)
		}
	})
}
