package doctor

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/checkup"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

func TestPauses(t *testing.T) {
	t.Parallel()
	pool := func(name, why string) client.Object {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(karpenterv1.GroupVersion.WithKind("NodePool"))
		o.SetName(name)
		if why != "" {
			o.SetAnnotations(map[string]string{translate.PauseAnnotationKey: why})
		}
		return o
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: mirror.PauseConfigMap}, Data: map[string]string{mirror.PauseReasonKey: "incident 42"}}
	// The fake adds what it doesn't know to its scheme, which must not be the one all share.
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithIndex(&corev1.ConfigMap{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).
		WithObjects(config, pool("free", ""), pool("not", "false"), pool("gpu", "load test"), pool("spot", "true")).Build()
	want := []Finding{
		{Check: "disruption", Status: checkup.Warning, Found: "paused by ConfigMap kube-system/dovetail-pause: incident 42", Remedy: "dovetail resume, if the controller is in that namespace"},
		{Check: "disruption", Status: checkup.Warning, Found: "paused by NodePool gpu, annotation dovetail.sh/pause-disruption: load test", Remedy: "dovetail resume gpu"},
		{Check: "disruption", Status: checkup.Warning, Found: "paused by NodePool spot, annotation dovetail.sh/pause-disruption", Remedy: "dovetail resume spot"},
	}
	if diff := cmp.Diff(want, pauses(t.Context(), c)); diff != "" {
		t.Errorf("pauses() (-want +got):\n%s", diff)
	}
}
