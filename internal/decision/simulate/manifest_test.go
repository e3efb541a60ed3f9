package simulate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

const poolText = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
        - {key: kubernetes.io/os, operator: In, values: [linux]}
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
`

// written writes the text to a file of a new directory and returns its path.
func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func kwokCatalog(t *testing.T) Catalog {
	t.Helper()
	c, err := CatalogNamed("kwok")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestManifests(t *testing.T) {
	t.Parallel()
	const container = `containers: [{name: a, image: a, resources: {limits: {cpu: "1", memory: 1Gi}}}]`
	cases := map[string]struct {
		text    string
		want    []scenario.Share // pods of the launches together, by group
		onNodes []scenario.Existing
		groups  []string
		refused int
	}{
		"workloads make their pods, and limits are requests": {
			text: poolText + `
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {replicas: 3, template: {spec: {` + container + `}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: sums, namespace: batch}
spec: {parallelism: 4, completions: 2, template: {spec: {` + container + `}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec: {template: {spec: {` + container + `}}}
`,
			groups: []string{"default/web", "batch/sums", "default/db"}, want: []scenario.Share{{0, 3}, {1, 2}, {2, 1}},
		},
		"a node that is there is filled first, after its pods and daemons": {
			text: poolText + `
---
apiVersion: v1
kind: Node
metadata: {name: old, labels: {kubernetes.io/hostname: old}} # of no NodePool
status: {capacity: {cpu: "4", memory: 8Gi, pods: "20"}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: logs}
spec: {template: {spec: {` + container + `}}}
---
apiVersion: v1
kind: Pod
metadata: {name: runs}
spec: {nodeName: old, ` + container + `}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {replicas: 3, template: {spec: {` + container + `}}}
`,
			groups: []string{"default/runs", "default/web"}, want: []scenario.Share{{1, 1}},
			onNodes: []scenario.Existing{{Node: "old", Pods: []scenario.Share{{1, 2}}}},
		},
		"admission fills new pods in: limit ranges, runtime classes": { // the node has room for 2 of web: its daemon asks for as much as one
			text: poolText + `
---
apiVersion: v1
kind: LimitRange
metadata: {name: plain}
spec: {limits: [{type: Container, defaultRequest: {cpu: "1"}}]}
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: sandbox}
handler: kata
overhead: {podFixed: {cpu: "1"}}
scheduling: {nodeSelector: {sandbox: "yes"}, tolerations: [{key: sandbox, operator: Exists}]}
---
apiVersion: v1
kind: Node
metadata: {name: old, labels: {sandbox: "yes"}}
spec: {taints: [{key: sandbox, effect: NoSchedule}]}
status: {capacity: {cpu: "7", memory: 8Gi, pods: "20"}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: logs}
spec: {template: {spec: {runtimeClassName: sandbox, containers: [{name: a, image: a}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {replicas: 3, template: {spec: {runtimeClassName: sandbox, containers: [{name: a, image: a}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: seen, uid: u1}
spec: {runtimeClassName: sandbox, nodeSelector: {sandbox: "yes"}, tolerations: [{key: sandbox, operator: Exists}], containers: [{name: a, image: a}]}
`,
			groups: []string{"default/seen", "default/web"}, refused: 1,
			onNodes: []scenario.Existing{{Node: "old", Pods: []scenario.Share{{0, 1}, {1, 2}}}},
		},
		"where pods are given that a workload made, it makes no more": {
			text: poolText + `
---
apiVersion: v1
kind: List
items:
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web}
  spec: {replicas: 3, template: {spec: {` + container + `}}}
- apiVersion: v1
  kind: Pod
  metadata: {name: web-1, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-abc, uid: u1, controller: true}]}
  spec: {` + container + `}
`,
			groups: []string{"default/web-abc"}, want: []scenario.Share{{0, 1}},
		},
		"a gang is launched for whole or not at all": { // three cores each, and the pool may have eight
			text: strings.Replace(poolText, "spec:", "spec:\n  limits: {cpu: \"8\"}", 1) + `
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: train}
spec: {schedulingPolicy: {gang: {minCount: 4}}}
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: basic}
spec: {schedulingPolicy: {basic: {}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec: {parallelism: 4, template: {spec: {schedulingGroup: {podGroupName: train}, containers: [{name: a, image: a, resources: {requests: {cpu: "3"}}}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {replicas: 2, template: {spec: {schedulingGroup: {podGroupName: basic}, ` + container + `}}}
`,
			groups: []string{"default/train", "default/web"}, want: []scenario.Share{{1, 2}}, refused: 4,
		},
		"a pod that nothing can take is refused": {
			text: poolText + `
---
apiVersion: v1
kind: Pod
metadata: {name: nowhere}
spec: {nodeSelector: {topology.kubernetes.io/zone: atlantis}, ` + container + `}
`,
			groups: []string{"default/nowhere"}, refused: 1,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := Manifests([]string{written(t, tc.text)}, kwokCatalog(t), time.Unix(0, 0))
			if err != nil {
				t.Fatal(err)
			}
			a, err := Run(c, Clock{Now: func() time.Time { return time.Unix(0, 0) }, CPU: func() time.Duration { return 0 }})
			if err != nil {
				t.Fatal(err)
			}
			var got []scenario.Share
			for _, n := range a.File.NewNodes {
				got = append(got, n.Pods...)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("launched for (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.onNodes, a.File.Existing); diff != "" && len(tc.onNodes)+len(a.File.Existing) > 0 {
				t.Errorf("on nodes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.groups, a.File.Groups); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
			if a.Refused() != tc.refused {
				t.Errorf("%d pods are refused, want %d", a.Refused(), tc.refused)
			}
		})
	}
}

func TestManifestsNameWhatIsWrong(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ text, want string }{
		"no YAML":                      {"a: [", ": document 1 (line 1): "},
		"nothing":                      {"", ": no manifests there: "},
		"no kind":                      {poolText + "---\n# a comment\na: b\n", ": document 2 (line 13): has no apiVersion and kind"},
		"a field that there is not":    {"---\n" + strings.Replace(poolText, "requirements", "requirments", 1), `: document 1 (line 2): NodePool: error unmarshaling JSON: while decoding JSON: json: unknown field "requirments"`},
		"a requirement that cannot be": {strings.Replace(poolText, "operator: In", "operator: Like", 1), ": document 1 (line 1): NodePool general: "},
		"an older pool":                {"apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: a}\n", ": document 1 (line 1): Provisioner of karpenter.sh/v1alpha5 is an older version: dovetail convert -f "},
		"a claim without a class":      {"apiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {name: a}\n", ": document 1 (line 1): NodeClaim a: spec.nodeClassRef is missing"},
		"fewer pods than none":         {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: -1}\n", ": document 1 (line 1): Deployment a: it has -1 pods; it may have 0 and more"},
		"an object without a name":     {"apiVersion: v1\nkind: Pod\n", ": document 1 (line 1): Pod: metadata.name is missing"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := written(t, tc.text)
			_, err := Manifests([]string{path}, kwokCatalog(t), time.Unix(0, 0))
			if err == nil || !strings.HasPrefix(err.Error(), path+tc.want) {
				t.Errorf("Manifests says %v, want %s%s", err, path, tc.want)
			}
		})
	}
}
