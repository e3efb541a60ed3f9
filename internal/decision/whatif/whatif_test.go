package whatif_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/config/crd"
	"github.com/dovetail-sh/dovetail/internal/core/forecast"
	"github.com/dovetail-sh/dovetail/internal/decision/simulate"
	"github.com/dovetail-sh/dovetail/internal/decision/whatif"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/view"
)

func now() time.Time { return time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC) }

// clusterText is a NodePool whose hash is that of poolText, and two of its nodes with three pods each; a seventh
// pod has no node.
func clusterText(hash string) string {
	var b strings.Builder
	b.WriteString(strings.Replace(poolText, "name: general", "name: general\n  annotations: {karpenter.sh/nodepool-hash: \""+hash+"\", karpenter.sh/nodepool-hash-version: v3}", 1))
	for _, n := range []string{"a", "b"} {
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll(nodeText, "HASH", hash), "NAME", n))
		for _, i := range []string{"1", "2", "3"} {
			b.WriteString(strings.ReplaceAll(strings.ReplaceAll(podText, "NAME", n+i), "NODE", n))
		}
	}
	b.WriteString(strings.NewReplacer("NAME", "c1", "  nodeName: NODE\n", "", `cpu: "1"`, `cpu: "2"`).Replace(podText))
	return b.String()
}

const poolText = `---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: general
spec:
  template:
    metadata: {labels: {v: one}}
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: node.kubernetes.io/instance-type, operator: In, values: [c-4x-amd64-linux, s-4x-amd64-linux]}
`

const nodeText = `---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata:
  name: NAME
  creationTimestamp: "2026-11-25T00:00:00Z"
  annotations: {karpenter.sh/nodepool-hash: "HASH", karpenter.sh/nodepool-hash-version: v3}
  labels: {karpenter.sh/nodepool: general, v: one, node.kubernetes.io/instance-type: c-4x-amd64-linux, topology.kubernetes.io/zone: test-zone-a, karpenter.sh/capacity-type: on-demand, kubernetes.io/arch: amd64, kubernetes.io/os: linux}
spec:
  nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
  requirements: []
status:
  nodeName: NAME
  providerID: "file:///NAME"
  lastPodEventTime: "2026-11-25T00:00:00Z"
  conditions:
  - {type: Launched, status: "True", reason: Launched, lastTransitionTime: "2026-11-25T00:00:00Z", message: ""}
  - {type: Registered, status: "True", reason: Registered, lastTransitionTime: "2026-11-25T00:00:00Z", message: ""}
  - {type: Initialized, status: "True", reason: Initialized, lastTransitionTime: "2026-11-25T00:00:00Z", message: ""}
---
apiVersion: v1
kind: Node
metadata:
  name: NAME
  labels: {karpenter.sh/nodepool: general, karpenter.kwok.sh/kwoknodeclass: default, karpenter.sh/registered: "true", karpenter.sh/initialized: "true", v: one, node.kubernetes.io/instance-type: c-4x-amd64-linux, topology.kubernetes.io/zone: test-zone-a, karpenter.sh/capacity-type: on-demand, kubernetes.io/arch: amd64, kubernetes.io/os: linux, kubernetes.io/hostname: NAME}
status:
  capacity: {cpu: "4", memory: 8Gi, pods: "110"}
  conditions:
  - {type: Ready, status: "True", lastTransitionTime: "2026-11-25T00:00:00Z", lastHeartbeatTime: "2026-11-25T00:00:00Z", reason: Ready, message: ""}
`

const podText = `---
apiVersion: v1
kind: Pod
metadata:
  name: web-NAME
  namespace: shop
  labels: {app: web}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: web, controller: true}]
spec:
  nodeName: NODE
  containers: [{name: web, image: none, resources: {requests: {cpu: "1", memory: 1Gi}}}]
`

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// ask answers what a change would do to the cluster.
func ask(t *testing.T, change whatif.Change) *view.WhatIf {
	t.Helper()
	v, err := answer(t, change)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func answer(t *testing.T, change whatif.Change, edits ...func(client.Object)) (*view.WhatIf, error) {
	t.Helper()
	pools, _, err := whatif.ReadPools([]string{write(t, "pools.yaml", poolText)})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := simulate.PresentIn([]string{write(t, "cluster.yaml", clusterText(translate.PoolHash(pools[0])))})
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range objects { // the API server has filled in its defaults
		if o.GetName() == "general" {
			objects[i] = withAnnotations(pools[0], o)
		}
		for _, edit := range edits {
			edit(objects[i])
		}
	}
	from, err := simulate.CatalogNamed("kwok")
	if err != nil {
		t.Fatal(err)
	}
	return whatif.Answer(&whatif.Input{Objects: objects, Cluster: "test", At: now(), From: from, Change: change})
}

func withAnnotations(is client.Object, of client.Object) client.Object {
	is.SetAnnotations(of.GetAnnotations())
	return is
}

func TestAPoolThatIsTheSameMakesNoDifference(t *testing.T) {
	t.Parallel()
	pools, _, err := whatif.ReadPools([]string{write(t, "same.yaml", poolText)})
	if err != nil {
		t.Fatal(err)
	}
	v := ask(t, whatif.Change{Pools: pools})
	if v.IsDifferent() || len(v.Changes) > 0 || v.Now.Nodes != 2 || v.Now.Refused != 1 || v.Left.Refused != 0 || v.Left.Nodes < 2 {
		t.Errorf("%+v", v)
	}
	if v.Left.LeastHourly <= 0 || v.Left.LeastHourly > v.Left.Price.Hourly || !v.Left.Proven {
		t.Errorf("the least is %v of %v", v.Left.LeastHourly, v.Left.Price.Hourly)
	}
}

// TestWhatIsPresumedOfNodesThatGo: that a node goes which is being deleted already is not known, and said.
func TestWhatIsPresumedOfNodesThatGo(t *testing.T) {
	t.Parallel()
	presumed := func(deleted string) string {
		v, err := answer(t, whatif.Change{}, func(o client.Object) {
			if nc, is := o.(*karpenterv1.NodeClaim); is && nc.Name == deleted {
				nc.DeletionTimestamp = &metav1.Time{Time: now()}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(v.Presumes, "\n")
	}
	const line = "\nNodes that are being deleted already: 1."
	if without, with := presumed(""), presumed("a"); strings.Contains(without, line) || !strings.Contains(with, line) {
		t.Errorf("without such a node it says\n%s\nwith one\n%s", without, with)
	}
}

func TestANewTemplateReplacesEveryNodeAsBudgetsAllow(t *testing.T) {
	t.Parallel()
	pools, _, err := whatif.ReadPools([]string{write(t, "v.yaml", strings.Replace(poolText, "v: one", "v: two", 1))})
	if err != nil {
		t.Fatal(err)
	}
	v := ask(t, whatif.Change{Pools: pools})
	if len(v.Drift) != 2 || v.Drift[0].Reason != "NodePoolDrifted" || v.Then.Replaced["Drifted"] != 2 || !v.IsDifferent() || len(v.Stay) > 0 {
		t.Errorf("%+v", v)
	}
	if want := []string{"NodePool general: spec.template.metadata.labels.v: one → two"}; !slices.Equal(v.Changes, want) {
		t.Errorf("changes %q, want %q", v.Changes, want)
	}
	var begun []time.Time
	for _, s := range v.Steps {
		if s.Reason == "Drifted" {
			begun = append(begun, s.At)
		}
	}
	if len(begun) != 2 || begun[1].Sub(begun[0]) < forecast.StartDefault { // 10 % of two nodes is one
		t.Errorf("steps begin at %v", begun)
	}
}

func TestPodsWithoutAPlaceAreNamed(t *testing.T) {
	t.Parallel()
	v := ask(t, whatif.Change{Settings: []string{`general.template.spec.taints=[{key: gpu, effect: NoSchedule}]`}})
	if len(v.NoPlace) != 1 || v.NoPlace[0].Pods != 7 || len(v.Stay) != 2 || v.Then.Refused != 1 || !strings.Contains(v.NoPlace[0].Why, "gpu") {
		t.Errorf("no place %+v, stay %+v", v.NoPlace, v.Stay)
	}
}

func TestEachSettingDoesWhatItSays(t *testing.T) {
	t.Parallel()
	half := 0.5
	for name, tc := range map[string]struct {
		change whatif.Change
		want   func(*view.WhatIf) bool
		says   string
	}{
		"a limit keeps the pending pod from a node": {
			whatif.Change{Settings: []string{"general.limits.cpu=8"}}, func(v *view.WhatIf) bool { return v.Left.Refused == 0 && v.Then.Refused == 1 && v.Then.Nodes == 2 }, "spec.limits: (unset) → {\"cpu\":\"8\"}",
		},
		"a type that is gone drifts": {
			whatif.Change{WithoutTypes: []string{"c-4x-*"}},
			func(v *view.WhatIf) bool {
				return len(v.Drift) == 2 && v.Drift[0].Reason == "RequirementsDrifted" && v.Then.Price.Hourly > v.Left.Price.Hourly
			}, "NotIn",
		},
		"half of the pods on spot": {
			whatif.Change{Spot: &half}, func(v *view.WhatIf) bool { return v.Then.Price.Hourly <= v.Left.Price.Hourly }, "up to 50 % of each workload's pods on spot",
		},
		"a policy": {
			whatif.Change{Policy: "WhenEmpty"}, func(v *view.WhatIf) bool { return v.Then.Nodes >= 2 }, "consolidationPolicy: WhenEmptyOrUnderutilized → WhenEmpty",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := ask(t, tc.change)
			if !tc.want(v) || !strings.Contains(strings.Join(v.Changes, "\n"), tc.says) {
				t.Errorf("%+v", v)
			}
		})
	}
}

func TestWhatCannotBeReadIsSaid(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, says string }{
		"a field that there is not": {strings.Replace(poolText, "spec:\n  template", "spec:\n  colour: red\n  template", 1), `NodePool general: error unmarshaling JSON`},
		"an older version":          {"apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: x}\n", "dovetail convert"},
		"no NodePool":               {"apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n", "there is no NodePool in it"},
		"no kind":                   {"a: b\n", "has no apiVersion and kind"},
		"no YAML":                   {"a: [b\n", "document 1"},
	} {
		if _, _, err := whatif.ReadPools([]string{write(t, "bad.yaml", tc.text)}); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want %q", name, err, tc.says)
		}
	}
	_, notes, err := whatif.ReadPools([]string{write(t, "more.yaml", poolText+"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n")})
	if err != nil || !slices.Equal(notes, []string{"not compared: Namespace x (only NodePools are)"}) {
		t.Errorf("%v, %v", notes, err)
	}
	for setting, says := range map[string]string{
		"general.limits.cpu":    "must be POOL.FIELD=VALUE",
		"other.limits.cpu=1":    "there are general",
		"general.limts.cpu=1":   "NodePool general",
		"general.weight.much=1": "NodePool general",
	} {
		if _, err := answer(t, whatif.Change{Settings: []string{setting}}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", setting, err, says)
		}
	}
	if _, err := answer(t, whatif.Change{Policy: "Never"}); err == nil || !strings.Contains(err.Error(), "WhenEmpty") {
		t.Error(err)
	}
	if _, err := answer(t, whatif.Change{WithoutTypes: []string{"["}}); err == nil || !strings.Contains(err.Error(), "no pattern") {
		t.Error(err)
	}
}

// TestDefaultsAreThoseOfTheAPI reads a NodePool without them, and compares with the CustomResourceDefinition.
func TestDefaultsAreThoseOfTheAPI(t *testing.T) {
	t.Parallel()
	text, err := crd.Files().ReadFile("karpenter.sh_nodepools.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var def struct {
		Spec struct {
			Versions []struct {
				Name   string `json:"name"`
				Schema struct {
					OpenAPI map[string]any `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &def); err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, v := range def.Spec.Versions {
		if v.Name == "v1" {
			spec := v.Schema.OpenAPI["properties"].(map[string]any)["spec"].(map[string]any)
			defaults("spec", spec, &found)
		}
	}
	slices.SortFunc(found, func(a, b string) int {
		return strings.Compare(strings.ReplaceAll(a, "[", "~"), strings.ReplaceAll(b, "[", "~"))
	})
	want := []string{
		`spec.disruption.budgets=[map[nodes:10%]]`, `spec.disruption.budgets[].nodes="10%"`, `spec.disruption.consolidateAfter="0s"`,
		`spec.disruption.consolidationPolicy="WhenEmptyOrUnderutilized"`, `spec.disruption=map[consolidateAfter:0s]`, `spec.template.spec.expireAfter="720h"`,
	}
	slices.Sort(found)
	slices.Sort(want)
	if !slices.Equal(found, want) {
		t.Errorf("the definition has the defaults\n%s\nfill knows\n%s", strings.Join(found, "\n"), strings.Join(want, "\n"))
	}
	pools, _, err := whatif.ReadPools([]string{write(t, "p.yaml", poolText)})
	if err != nil {
		t.Fatal(err)
	}
	d := pools[0].Spec.Disruption
	if d.ConsolidateAfter.String() != "0s" || d.ConsolidationPolicy != "WhenEmptyOrUnderutilized" || len(d.Budgets) != 1 || d.Budgets[0].Nodes != "10%" || pools[0].Spec.Template.Spec.ExpireAfter.String() != "720h" {
		t.Errorf("%+v", pools[0].Spec)
	}
}

func defaults(at string, schema map[string]any, found *[]string) {
	if d, has := schema["default"]; has {
		if text, is := d.(string); is {
			*found = append(*found, at+`="`+text+`"`)
		} else {
			*found = append(*found, at+"="+fmt.Sprint(d))
		}
	}
	if properties, is := schema["properties"].(map[string]any); is {
		for name, p := range properties {
			defaults(at+"."+name, p.(map[string]any), found)
		}
	}
	if items, is := schema["items"].(map[string]any); is {
		defaults(at+"[]", items, found)
	}
}
