package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// TestVersionsDiffer compares the schemas of v1beta1 and v1: what one version prunes or defaults
// otherwise is listed here, because the API server converts nothing but apiVersion.
func TestVersionsDiffer(t *testing.T) {
	t.Parallel()
	definitions, err := crds()
	if err != nil {
		t.Fatal(err)
	}
	const template = ".properties.spec.properties.template.properties.spec.properties"
	const options = ".properties.spec.properties.metadataOptions"
	want := map[string][]string{
		nodePool.crd: {
			template + ".expireAfter.default: 720h in v1, <nil> in v1beta1",
			template + ".resources: <nil> in v1, map[type:object x-kubernetes-preserve-unknown-fields:true] in v1beta1",
		},
		nodeClaim.crd: {".properties.spec.properties.expireAfter.default: 720h in v1, <nil> in v1beta1"},
		ec2NodeClass.crd: {
			options + ".default.httpPutResponseHopLimit: 1 in v1, 2 in v1beta1",
			options + ".properties.httpPutResponseHopLimit.default: 1 in v1, 2 in v1beta1",
		},
	}
	for file, u := range definitions {
		versions, _, err := unstructured.NestedSlice(u.Object, "spec", "versions")
		if err != nil {
			t.Fatal(err)
		}
		if want[file] == nil {
			if len(versions) != 1 {
				t.Errorf("%s has %d versions", file, len(versions))
			}
			continue
		}
		v1, v1beta1 := versions[0].(map[string]any), versions[1].(map[string]any)
		if v1["storage"] != true || v1beta1["storage"] != false || v1beta1["served"] != true || v1beta1["deprecated"] != true {
			t.Errorf("%s: %v is stored %v, %v is stored %v", file, v1["name"], v1["storage"], v1beta1["name"], v1beta1["storage"])
		}
		if strategy, _, _ := unstructured.NestedString(u.Object, "spec", "conversion", "strategy"); strategy != "None" {
			t.Errorf("%s: conversion by %q", file, strategy)
		}
		if diff := cmp.Diff(want[file], differences("", schemaOf(v1), schemaOf(v1beta1))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

func schemaOf(version map[string]any) any {
	return version["schema"].(map[string]any)["openAPIV3Schema"]
}

// differences returns where two values of JSON differ, sorted.
func differences(path string, a, b any) []string {
	x, isMap := a.(map[string]any)
	y, too := b.(map[string]any)
	if !isMap || !too {
		if cmp.Equal(a, b) {
			return nil
		}
		return []string{fmt.Sprintf("%s: %v in v1, %v in v1beta1", path, a, b)}
	}
	var out []string
	for key := range x {
		out = append(out, differences(path+"."+key, x[key], y[key])...)
	}
	for key := range y {
		if _, has := x[key]; !has {
			out = append(out, differences(path+"."+key, nil, y[key])...)
		}
	}
	slices.Sort(out)
	return out
}

// warnings keeps what the API server warns of.
type warnings []string

func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	*w = append(*w, text)
}

// TestManifestsOfV1beta1 applies manifests as tutorials have them, as kubectl does from the client
// and from the server, and reads them as v1.
func TestManifestsOfV1beta1(t *testing.T) {
	t.Parallel()
	const refused = "deprecated; use"
	tests := map[string]struct {
		kind     kind
		manifest string
		// as v1: what the object has at these paths; "null" is nothing
		want map[string]string
		warn string
	}{
		"a pool of v1beta1": {nodePool, `
apiVersion: karpenter.sh/v1beta1
kind: NodePool
spec:
  template:
    metadata: {labels: {team: web}}
    spec:
      requirements:
      - {key: kubernetes.io/arch, operator: In, values: [amd64, arm64]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}
      nodeClassRef: {name: default}
      kubelet: {maxPods: 42, systemReserved: {cpu: 100m}}
      resources: {requests: {cpu: 1}}
  limits: {cpu: 1000}
  disruption: {consolidationPolicy: WhenUnderutilized, expireAfter: 100h}
`, map[string]string{
			"spec.disruption":                 "{budgets: [{nodes: 10%}], consolidateAfter: 0s, consolidationPolicy: WhenUnderutilized, expireAfter: 100h}",
			"spec.template.spec.kubelet":      "{maxPods: 42, systemReserved: {cpu: 100m}}",
			"spec.template.spec.nodeClassRef": "{name: default}",
			"spec.template.spec.resources":    "null",
			"spec.template.spec.expireAfter":  "720h",
		}, refused},
		"a pool whose reference has a version": {nodePool, `
apiVersion: karpenter.sh/v1beta1
kind: NodePool
spec:
  template:
    spec:
      requirements: []
      nodeClassRef: {name: default, kind: EC2NodeClass, apiVersion: karpenter.k8s.aws/v1beta1}
`, map[string]string{
			"spec.template.spec.nodeClassRef": "{name: default, kind: EC2NodeClass, apiVersion: karpenter.k8s.aws/v1beta1}",
		}, refused},
		"a pool of v1 without a class": {nodePool, `
apiVersion: karpenter.sh/v1
kind: NodePool
spec:
  template:
    spec:
      requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [p5, p5e]}]
      taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
  limits: {nvidia.com/gpu: 64}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 30s}
`, map[string]string{"spec.template.spec.nodeClassRef": "null", "spec.limits": "{nvidia.com/gpu: 64}"}, ""},
		"a claim of v1beta1": {nodeClaim, `
apiVersion: karpenter.sh/v1beta1
kind: NodeClaim
spec:
  requirements: []
  resources: {requests: {cpu: 1}}
  kubelet: {maxPods: 42}
  nodeClassRef: {name: default}
`, map[string]string{"spec.kubelet": "{maxPods: 42}", "spec.expireAfter": "720h"}, refused},
		"a class of v1beta1 with a family alone": {ec2NodeClass, `
apiVersion: karpenter.k8s.aws/v1beta1
kind: EC2NodeClass
spec:
  role: node
  amiFamily: AL2
  subnetSelectorTerms: [{id: subnet-1}]
  securityGroupSelectorTerms: [{id: sg-1}]
`, map[string]string{
			"spec.amiSelectorTerms": "null", "spec.amiFamily": "AL2",
			"spec.metadataOptions": "{httpEndpoint: enabled, httpProtocolIPv6: disabled, httpPutResponseHopLimit: 2, httpTokens: required}",
		}, refused},
		"a class of v1beta1 with half of the metadata options": {ec2NodeClass, `
apiVersion: karpenter.k8s.aws/v1beta1
kind: EC2NodeClass
spec:
  role: node
  amiFamily: Ubuntu
  amiSelectorTerms: [{id: ami-1}]
  subnetSelectorTerms: [{id: subnet-1}]
  securityGroupSelectorTerms: [{id: sg-1}]
  metadataOptions: {httpTokens: optional}
`, map[string]string{"spec.metadataOptions.httpPutResponseHopLimit": "2"}, refused},
		"a class of v1": {ec2NodeClass, ec2NodeClass.base, map[string]string{"spec.metadataOptions.httpPutResponseHopLimit": "1"}, ""},
	}
	for name, tt := range tests {
		for _, server := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, server-side %t", name, server), func(t *testing.T) {
				t.Parallel()
				got, warned := applied(t, tt.kind, tt.manifest, server)
				if (tt.warn == "") != (len(warned) == 0) || !strings.Contains(strings.Join(warned, "\n"), tt.warn) {
					t.Errorf("warned %q, want %q", warned, tt.warn)
				}
				for path, text := range tt.want {
					is, _, err := unstructured.NestedFieldNoCopy(got.Object, strings.Split(path, ".")...)
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(normal(t, text), is); diff != "" {
						t.Errorf("%s (-want +got):\n%s", path, diff)
					}
				}
			})
		}
	}
}

// normal reads YAML as the API server's answers are read.
func normal(t *testing.T, text string) any {
	t.Helper()
	u := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSON([]byte("{apiVersion: v1, kind: X, v: " + text + "}"))
	if err == nil {
		err = u.UnmarshalJSON(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return u.Object["v"]
}

// applied creates an object in the version of its manifest, applies it a second time, and reads it as v1.
func applied(t *testing.T, k kind, manifest string, serverSide bool) (*unstructured.Unstructured, warnings) {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &u.Object); err != nil {
		t.Fatal(err)
	}
	u.SetName("older-" + strings.ToLower(strings.NewReplacer("/", "-", " ", "-", ",", "", "_", "-", "#", "-").Replace(t.Name())))
	var warned warnings
	config := rest.CopyConfig(server(t))
	config.WarningHandlerWithContext = &warned
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	in := client.Resource(u.GroupVersionKind().GroupVersion().WithResource(k.resource.Resource))
	strict := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
	if serverSide {
		for range 2 {
			if _, err := in.Apply(t.Context(), u.GetName(), u, metav1.ApplyOptions{FieldManager: "kubectl"}); err != nil {
				t.Fatal(err)
			}
		}
	} else if _, err := in.Create(t.Context(), u, strict); err != nil {
		t.Fatal(err)
	}
	got, err := client.Resource(k.resource).Get(t.Context(), u.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// A client of v1 that writes whole objects keeps what it does not know.
	again := got.DeepCopy()
	again.SetLabels(map[string]string{"touched": "true"})
	if got, err = client.Resource(k.resource).Update(t.Context(), again, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return got, warned
}
