package simulate

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// private is a cluster in which every name that a person chose has "acme" in it.
const private = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: acme-pool, labels: {acme.com/owner: acme-team}}
spec:
  template:
    metadata: {labels: {acme.com/tier: acme-gold, acme-size: "7"}}
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: acme-class}
      taints: [{key: acme.com/dedicated, value: acme-shop, effect: NoSchedule}]
      requirements:
      - {key: acme.com/zone, operator: In, values: [acme-east, acme-west]}
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
      - {key: karpenter.kwok.sh/instance-cpu, operator: Lte, values: ["8"]}
---
apiVersion: v1
kind: Namespace
metadata: {name: acme-shop, labels: {kubernetes.io/metadata.name: acme-shop, acme.com/env: acme-prod}}
---
apiVersion: v1
kind: Node
metadata: {name: acme-node-1, labels: {kubernetes.io/hostname: acme-node-1, karpenter.sh/nodepool: acme-pool, topology.kubernetes.io/zone: test-zone-a, acme.com/zone: acme-east}}
spec: {providerID: "kwok://acme-node-1", taints: [{key: acme.com/dedicated, value: acme-shop, effect: NoSchedule}]}
status: {allocatable: {cpu: "2", memory: 8Gi, pods: "110"}, conditions: [{type: Ready, status: "True", message: acme says hello}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: acme-logs, namespace: acme-shop}
spec:
  selector: {matchLabels: {app: acme-logs}}
  template:
    metadata: {labels: {app: acme-logs}}
    spec:
      serviceAccountName: acme-logger
      runtimeClassName: acme-sandbox
      tolerations: [{operator: Exists}]
      containers: [{name: acme-logs, image: acme.com/logs, resources: {requests: {cpu: 100m}}}]
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: acme-sandbox}
handler: acme-kata
overhead: {podFixed: {cpu: "1"}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: acme-limits, namespace: acme-shop}
spec: {limits: [{type: Container, defaultRequest: {memory: 1Gi}}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: acme-budget, namespace: acme-shop}
spec: {minAvailable: 1, selector: {matchLabels: {app: acme-web}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: acme-db-0-acme-scratch, namespace: acme-shop, ownerReferences: [{apiVersion: v1, kind: Pod, name: acme-db-0, uid: u1, controller: true}]}
spec: {volumeName: acme-volume, storageClassName: acme-fast, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
status: {phase: Bound}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: acme-volume}
spec:
  storageClassName: acme-fast
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  claimRef: {namespace: acme-shop, name: acme-db-0-acme-scratch}
  csi: {driver: ebs.csi.aws.com, volumeHandle: acme-handle}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [test-zone-b]}]}]}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: acme-fast}
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: Pod
metadata: {name: acme-db-0, namespace: acme-shop, uid: u1, labels: {app: acme-db, statefulset.kubernetes.io/pod-name: acme-db-0}}
spec:
  tolerations: [{key: acme.com/dedicated, operator: Equal, value: acme-shop}]
  volumes: [{name: acme-scratch, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}]
  containers: [{name: acme-db, image: acme.com/db, resources: {requests: {cpu: "1"}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: acme-lone, namespace: acme-shop, uid: u9, labels: {app: acme-lone}}
spec:
  nodeSelector: {acme.com/zone: acme-north}
  tolerations: [{key: acme.com/dedicated, operator: Exists}]
  containers: [{name: acme-lone, image: acme.com/lone, resources: {requests: {cpu: "1"}}}]
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: acme-train, namespace: acme-shop}
spec: {workloadRef: {workloadName: acme-job, templateName: acme-part}, priorityClassName: acme-high, schedulingPolicy: {gang: {minCount: 2}}}
---
apiVersion: v1
kind: Pod
metadata: {name: acme-train-0, namespace: acme-shop, uid: u10}
spec:
  schedulingGroup: {podGroupName: acme-train}
  tolerations: [{key: acme.com/dedicated, operator: Exists}]
  containers: [{name: acme-train, image: acme.com/train, resources: {requests: {cpu: "1"}}}]
---
apiVersion: v1
kind: PodTemplate
metadata: {name: acme-runner, namespace: acme-shop}
template:
  metadata: {labels: {app: acme-runner}}
  spec:
    serviceAccountName: acme-runner
    tolerations: [{key: acme.com/dedicated, operator: Exists}]
    containers: [{name: acme-runner, image: acme.com/runner, resources: {requests: {cpu: "1"}}}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: acme-store, namespace: acme-shop}
spec:
  replicas: 4
  serviceName: acme-store
  selector: {matchLabels: {app: acme-store}}
  template:
    metadata: {labels: {app: acme-store}}
    spec: {containers: [{name: acme-store, image: acme.com/store, resources: {requests: {cpu: "1"}}}]}
---
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {name: acme-runners, namespace: acme-shop}
spec: {podTemplateRef: {name: acme-runner}, replicas: 3}
---
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {name: acme-stores, namespace: acme-shop}
spec: {scalableRef: {apiGroup: apps, kind: StatefulSet, name: acme-store}, percentage: 50}
`

// web is a pod that must be apart from its like, and where its pool is.
const web = `
---
apiVersion: v1
kind: Pod
metadata: {name: acme-web-N, namespace: acme-shop, uid: wN, labels: {app: acme-web, acme.com/rev: acme-abc}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: acme-web, uid: rs, controller: true}]}
spec:
  nodeSelector: {acme.com/tier: acme-gold}
  tolerations: [{key: acme.com/dedicated, operator: Exists}]
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: acme-size, operator: Gt, values: ["5"]}, {key: acme.com/zone, operator: In, values: [acme-west, acme-south]}]}]}
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, namespaces: [acme-shop], labelSelector: {matchExpressions: [{key: app, operator: In, values: [acme-web]}]}, matchLabelKeys: [acme.com/rev]}]
  containers: [{name: acme-web, image: acme.com/web, resources: {requests: {cpu: "3"}}}]
`

// privateCase writes the objects to a file, and returns the case of it.
func privateCase(t *testing.T, content []byte) Case {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cluster.json")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	from, err := CatalogNamed("kwok")
	if err != nil {
		t.Fatal(err)
	}
	from.Gates.CapacityBuffer = true
	c, err := Manifests([]string{path}, from, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// kinds returns what a case comes to, without names.
func kinds(t *testing.T, c Case) (out []string) {
	t.Helper()
	a, err := Run(c, Clock{Now: func() time.Time { return time.Time{} }, CPU: func() time.Duration { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range a.File.NewNodes {
		out = append(out, n.Type+" "+n.Zone+" "+n.CapacityType)
	}
	for _, r := range a.Plan.Refusals {
		out = append(out, "refused "+string(r.Why.Reason))
	}
	for _, b := range a.File.Buffers {
		out = append(out, fmt.Sprintf("buffer: room for %d and %d of %d", b.Held, b.Launched, b.Chunks))
	}
	return out
}

func TestRedactedMeansTheSameAndNamesNobody(t *testing.T) {
	t.Parallel()
	content := private
	for _, n := range []string{"1", "2", "3"} {
		content += strings.ReplaceAll(web, "-N", "-"+n)
		content = strings.ReplaceAll(content, "uid: wN", "uid: w"+n)
	}
	m, err := readManifests(split("private", []byte(content)))
	if err != nil {
		t.Fatal(err)
	}
	var objects []client.Object
	for _, o := range m.pools {
		objects = append(objects, bare(o))
	}
	for _, o := range slices.Concat(m.others, m.named) {
		objects = append(objects, bare(o))
	}
	for _, o := range m.buffers {
		objects = append(objects, bare(o))
	}
	for _, o := range m.pods {
		objects = append(objects, bare(o))
	}
	trees, err := Redact(objects)
	if err != nil {
		t.Fatal(err)
	}
	list, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": trees})
	if err != nil {
		t.Fatal(err)
	}
	if at := strings.Index(string(list), "acme"); at >= 0 {
		t.Errorf("a name is left: …%s…", list[max(0, at-80):min(len(list), at+40)])
	}
	want, got := kinds(t, privateCase(t, []byte(content))), kinds(t, privateCase(t, list))
	if diff := cmp.Diff(want, got); diff != "" || len(want) != 8 || !slices.Contains(want, "buffer: room for 0 and 3 of 3") || !slices.Contains(want, "buffer: room for 0 and 0 of 2") || !slices.Contains(want, "refused RequirementUnmet") || !slices.Contains(want, "refused GangIncomplete") {
		t.Errorf("as it was and redacted (-want +got):\n%s\nin all %q", diff, want)
	}
}
