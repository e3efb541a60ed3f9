package api

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	karpenterv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
)

var nodeOverlay = kind{
	crd:      "karpenter.sh_nodeoverlays.yaml",
	resource: karpenterv1alpha1.GroupVersion.WithResource("nodeoverlays"),
	base: `
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
spec:
  requirements: []
`,
	entries: both(requirementEntries("spec.requirements"), map[string]entry{
		"spec required":              {accept: "{weight: 1}", refuse: "null", why: "Required"},
		"spec.requirements required": {accept: "[]", refuse: "null", why: "Required"},
		"spec.requirements rule requirements with operator 'In' or 'NotIn' must have a value": {
			accept: "[{key: a, operator: NotIn, values: [x]}]", refuse: "[{key: a, operator: NotIn}]",
		},
		"spec.weight minimum":          {accept: "1", refuse: "0", why: "greater than or equal to 1"},
		"spec.weight maximum":          {accept: "10000", refuse: "10001", why: "less than or equal to 10000"},
		"spec.price pattern":           {accept: "'0.25'", refuse: "'-1'", why: "should match"},
		"spec.priceAdjustment pattern": {accept: "'-99.5%'", refuse: "'-101%'", why: "should match"},
		"spec.capacity{} pattern":      {at: "spec.capacity", field: "spec.capacity.example.com/gpu", accept: "{example.com/gpu: 4}", refuse: "{example.com/gpu: four}", why: "should match"},
		"spec.capacity rule capacity may not hold 'cpu', 'memory', 'ephemeral-storage' or 'pods'": {
			accept: "{example.com/gpu: 4}", refuse: "{memory: 1Gi}",
		},
		"spec rule spec.price and spec.priceAdjustment exclude each other": {accept: "{price: '1'}", refuse: "{price: '1', priceAdjustment: '+1'}"},
	}),
}

var capacityBuffer = kind{
	crd:      "autoscaling.x-k8s.io_capacitybuffers.yaml",
	resource: autoscalingv1beta1.GroupVersion.WithResource("capacitybuffers"),
	base: `
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
spec: {}
`,
	entries: map[string]entry{
		"spec required":                      {accept: "{}", refuse: "null", why: "Required"},
		"spec.provisioningStrategy default":  {accept: "buffer.x-k8s.io/active-capacity"},
		"spec.replicas minimum":              {accept: "0", refuse: "-1", why: "greater than or equal to 0"},
		"spec.percentage minimum":            {accept: "0", refuse: "-1", why: "greater than or equal to 0"},
		"spec.limits{} pattern":              {at: "spec.limits", field: "spec.limits.cpu", accept: "{cpu: 4}", refuse: "{cpu: four}", why: "should match"},
		"spec.podTemplateRef.name required":  {at: "spec", field: "spec.podTemplateRef.name", accept: "{podTemplateRef: {name: a}, replicas: 1}", refuse: "{podTemplateRef: {}, replicas: 1}", why: "Required"},
		"spec.podTemplateRef.name minLength": {at: "spec", field: "spec.podTemplateRef.name", accept: "{podTemplateRef: {name: a}, limits: {cpu: 1}}", refuse: "{podTemplateRef: {name: ''}, replicas: 1}", why: "at least 1 char"},
		"spec.scalableRef.name required":     {at: "spec.scalableRef", field: "spec.scalableRef.name", accept: "{kind: A, name: a}", refuse: "{kind: A}", why: "Required"},
		"spec.scalableRef.name minLength":    {at: "spec.scalableRef", field: "spec.scalableRef.name", accept: "{kind: A, name: a}", refuse: "{kind: A, name: ''}", why: "at least 1 char"},
		"spec.scalableRef.kind required":     {at: "spec.scalableRef", field: "spec.scalableRef.kind", accept: "{kind: A, name: a}", refuse: "{name: a}", why: "Required"},
		"spec.scalableRef.kind minLength":    {at: "spec.scalableRef", field: "spec.scalableRef.kind", accept: "{kind: A, name: a}", refuse: "{kind: '', name: a}", why: "at least 1 char"},
		"spec rule spec.podTemplateRef needs spec.replicas or spec.limits": {
			accept: "{podTemplateRef: {name: a}, limits: {cpu: 1}}", refuse: "{podTemplateRef: {name: a}, percentage: 10}",
		},
		"spec rule spec.podTemplateRef and spec.scalableRef exclude each other": {
			accept: "{scalableRef: {kind: A, name: a}, replicas: 1}", refuse: "{podTemplateRef: {name: a}, scalableRef: {kind: A, name: a}, replicas: 1}",
		},
	},
}

var kwokNodeClass = kind{
	crd:      "karpenter.kwok.sh_kwoknodeclasses.yaml",
	resource: kwokv1alpha1.GroupVersion.WithResource("kwoknodeclasses"),
	base: `
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
`,
	entries: map[string]entry{
		"spec.nodeRegistrationDelay pattern": {accept: "1m30s", refuse: "2562048h", why: "should match"},
	},
}

// TestNodeClassIsReadyFromTheStart checks the default of a status, which is dropped
// when an object is created and so shows only when it is read.
func TestNodeClassIsReadyFromTheStart(t *testing.T) {
	t.Parallel()
	client := kwokNodeClass.client(t)
	if _, err := client.Create(t.Context(), kwokNodeClass.object(t, "ready"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := client.Get(t.Context(), "ready", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	conditions, _, _ := unstructured.NestedSlice(got.Object, "status", "conditions")
	want := []any{map[string]any{
		"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2024-01-01T01:01:01Z",
	}}
	if diff := cmp.Diff(want, conditions); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

func TestNodePoolStatusDefaults(t *testing.T) {
	t.Parallel()
	client := nodePool.client(t)
	u, err := client.Create(t.Context(), nodePool.object(t, "status"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if u, err = client.UpdateStatus(t.Context(), with(t, u, "status", "{resources: {cpu: 1}}"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	nodes, found, err := unstructured.NestedInt64(u.Object, "status", "nodes")
	if nodes != 0 || !found || err != nil {
		t.Errorf("status.nodes is %d, found %v, %v, want 0", nodes, found, err)
	}
}
