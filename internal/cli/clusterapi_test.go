package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cli/savings"
	"github.com/dovetail-sh/dovetail/internal/decision/simulate"
	"github.com/dovetail-sh/dovetail/internal/view"
	"github.com/dovetail-sh/dovetail/internal/view/live"
)

// metalPool is a NodePool of Cluster API, with a pod.
const metalPool = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: metal}
spec: {template: {spec: {nodeClassRef: {group: karpenter.cluster.x-k8s.io, kind: ClusterAPINodeClass, name: default}, requirements: []}}}
---
apiVersion: v1
kind: Pod
metadata: {name: a}
spec: {containers: [{name: a, image: a, resources: {requests: {cpu: 3}}}]}
---
`

// metalManifests are objects of Cluster API of one version, with that NodePool.
const metalManifests = metalPool + `apiVersion: karpenter.cluster.x-k8s.io/v1alpha1
kind: ClusterAPINodeClass
metadata: {name: default}
spec: {}
---
apiVersion: v1
kind: List
items:
- apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
  kind: VSphereMachineTemplate
  metadata: {name: worker}
  spec: {template: {spec: {numCPUs: 8, memoryMiB: 32768}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: prod}
status: {failureDomains: [{name: rack-a, controlPlane: false}]}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata:
  name: worker-8x32
  labels: {node.cluster.x-k8s.io/karpenter-member: ""}
  annotations: {cluster.x-k8s.io/machine-current-price: "0.31"}
spec:
  clusterName: prod
  template:
    spec:
      bootstrap: {dataSecretName: data}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: VSphereMachineTemplate, name: worker}
`

// upstreamManifests are the class and the MachineDeployment of the earlier provider's documentation, with that NodePool.
const upstreamManifests = metalPool + `apiVersion: karpenter.cluster.x-k8s.io/v1alpha1
kind: ClusterAPINodeClass
metadata: {name: default}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: DockerMachineTemplate
metadata: {name: md, namespace: capi}
spec: {template: {spec: {}}}
---
apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineDeployment
metadata:
  name: md
  namespace: capi
  labels: {node.cluster.x-k8s.io/karpenter-member: ""}
  annotations:
    capacity.cluster-autoscaler.kubernetes.io/cpu: "4"
    capacity.cluster-autoscaler.kubernetes.io/memory: 16G
    capacity.cluster-autoscaler.kubernetes.io/labels: node.kubernetes.io/instance-type=medium,topology.kubernetes.io/zone=z1
spec:
  clusterName: km
  template:
    spec:
      bootstrap: {dataSecretName: data}
      infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: DockerMachineTemplate, name: md}
`

// TestSimulateReadsMachineDeployments: what ClusterAPINodeClasses offer are the MachineDeployments among the manifests.
func TestSimulateReadsMachineDeployments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	n := 0
	edited := func(from string, replacements ...string) string {
		n++
		out := strings.NewReplacer(replacements...).Replace(from)
		if out == from {
			t.Fatalf("%q changes nothing", replacements)
		}
		return write(strings.Repeat("x", n)+".yaml", out)
	}
	metal, upstream := write("metal.yaml", metalManifests), write("upstream.yaml", upstreamManifests)
	prices := write("prices", "medium: 0.5\n")
	for name, tc := range map[string]struct {
		args           []string
		status         int
		stdout, stderr string // parts
		not            string // no part
	}{
		"capacity of the template, price, failure domain": {args: []string{"-f", metal}, stdout: "worker-8x32  rack-a", not: "of no say here"},
		"the earlier provider's":                          {args: []string{"-f", upstream}, stdout: "medium    z1"},
		"a Cluster that is not there":                     {args: []string{"-f", upstream}, stdout: "Cluster capi/km is not among the manifests"},
		"no price":                                        {args: []string{"-f", upstream}, stdout: "the price is unknown of nodes from capi/md"},
		"prices of a file":                                {args: []string{"-f", upstream, "--cluster-api-prices-file", prices}, stdout: "0.5", not: "the price is unknown"},
		"another namespace":                               {[]string{"-f", upstream, "--cluster-api-namespace", "other"}, 2, "", "it selects no MachineDeployment", ""},
		"a paused Cluster":                                {[]string{"-f", edited(metalManifests, "metadata: {name: prod}", "metadata: {name: prod, annotations: {cluster.x-k8s.io/paused: \"\"}}")}, 3, "its Cluster prod is paused", "", ""},
		"a class that there is not":                       {[]string{"-f", edited(metalManifests, "kind: ClusterAPINodeClass, name: default", "kind: ClusterAPINodeClass, name: none")}, 2, "", "instance types for NodePool metal: get node class ClusterAPINodeClass/none", ""},
		"a field that classes do not have":                {[]string{"-f", edited(metalManifests, "spec: {}", "spec: {clusterReference: {}}")}, 2, "", `ClusterAPINodeClass default: strict decoding error: unknown field "spec.clusterReference"`, ""},
		"no capacity":                                     {[]string{"-f", edited(metalManifests, "numCPUs: 8, ", "")}, 2, "", "MachineDeployment default/worker-8x32: the cpu of its nodes is not known", ""},
		"no template":                                     {[]string{"-f", edited(metalManifests, "kind: VSphereMachineTemplate\n", "kind: VSphereFailureDomain\n")}, 2, "", "MachineDeployment default/worker-8x32: get VSphereMachineTemplate/worker", ""},
		"several versions":                                {[]string{"-f", metal, "-f", upstream}, 2, "", "write both in one version", ""},
		"a kubeconfig that is not there":                  {[]string{"-f", metal, "--cluster-api-kubeconfig", "no-such"}, 2, "", "--cluster-api-kubeconfig: stat no-such", ""},
		"prices that are none":                            {[]string{"-f", metal, "--cluster-api-prices-file", metal}, 2, "", "--cluster-api-prices-file: ", ""},
		"a token without an address":                      {[]string{"-f", metal, "--cluster-api-token", "x"}, 2, "", "--cluster-api-token, --cluster-api-certificate-authority-data and --cluster-api-skip-tls-verify need --cluster-api-url", ""},
		"a scenario has its own":                          {[]string{"--scenario", "x", "--cluster-api-namespace", "x"}, 2, "", "--cluster-api-namespace has no effect with --scenario", ""},
		"a catalog for all classes":                       {[]string{"-f", metal, "--catalog", "kwok"}, 0, "c-", "", "worker-8x32"},
		"and flags beside it":                             {[]string{"-f", metal, "--catalog", "kwok", "--cluster-api-namespace", "x"}, 2, "", "--cluster-api-namespace has no effect with --catalog", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			status := Main(t.Context(), append([]string{"simulate"}, tc.args...), &stdout, &stderr)
			has := strings.Contains(stdout.String(), tc.stdout) && strings.Contains(stderr.String(), tc.stderr)
			if status != tc.status || !has || tc.not != "" && strings.Contains(stdout.String(), tc.not) {
				t.Errorf("status %d, want %d; it printed\n%s%s", status, tc.status, stdout.String(), stderr.String())
			}
		})
	}
}

// replicas are the Nodes and Machines of the MachineDeployment of metalManifests that another autoscaler scales: three, with a
// pod of one CPU each. Nothing of Dovetail's is there, and no zone.
func replicas() string {
	out := strings.TrimPrefix(metalManifests, metalPool)
	out = strings.Replace(out, "  labels: {node.cluster.x-k8s.io/karpenter-member: \"\"}\n", "", 1)
	for _, n := range []string{"1", "2", "3"} {
		out += strings.ReplaceAll(`---
apiVersion: v1
kind: Node
metadata: {name: nX, creationTimestamp: "2026-11-01T00:00:00Z", labels: {kubernetes.io/hostname: nX, kubernetes.io/arch: amd64, kubernetes.io/os: linux}}
spec: {providerID: "vsphere://X"}
status:
  capacity: {cpu: 8, memory: 32Gi, pods: 110}
  allocatable: {cpu: 7, memory: 30Gi, pods: 110}
  conditions: [{type: Ready, status: "True"}]
---
apiVersion: v1
kind: Pod
metadata: {name: pX, namespace: shop, labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: web, controller: true}]}
spec: {nodeName: nX, containers: [{name: a, image: a, resources: {requests: {cpu: 1}}}]}
status: {phase: Running, conditions: [{type: PodScheduled, status: "True"}, {type: Ready, status: "True"}]}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: mX, labels: {cluster.x-k8s.io/deployment-name: worker-8x32}}
spec: {clusterName: prod, providerID: "vsphere://X"}
status: {failureDomain: rack-a, nodeRef: {name: nX}}
`, "X", n)
	}
	return out
}

// TestSavingsReadsMachineDeployments: replicas of MachineDeployments are node groups, at the prices that somebody wrote.
func TestSavingsReadsMachineDeployments(t *testing.T) {
	t.Parallel()
	const price = `annotations: {cluster.x-k8s.io/machine-current-price: "0.31"}`
	base := replicas()
	prices := filepath.Join(t.TempDir(), "prices")
	if err := os.WriteFile(prices, []byte("worker-8x32: 0.5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// other is a MachineDeployment that is cheaper and would hold all pods, and has a node with a taint.
	const other = `---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: other, annotations: {cluster.x-k8s.io/machine-current-price: "0.1"}}
spec: {clusterName: prod, template: {spec: {bootstrap: {dataSecretName: data}, infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: VSphereMachineTemplate, name: worker}}}}
`
	const tainted = `---
apiVersion: v1
kind: Node
metadata: {name: t1, labels: {kubernetes.io/hostname: t1, kubernetes.io/arch: amd64, kubernetes.io/os: linux}}
spec: {providerID: "vsphere://t1", taints: [{key: own, effect: NoSchedule}]}
status: {capacity: {cpu: 8, memory: 32Gi, pods: 110}, allocatable: {cpu: 7, memory: 30Gi, pods: 110}, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: t1, labels: {cluster.x-k8s.io/deployment-name: other}}
spec: {clusterName: prod, providerID: "vsphere://t1"}
status: {failureDomain: rack-a, nodeRef: {name: t1}}
`
	for name, tc := range map[string]struct {
		objects    string
		args       []string
		status     int
		now, after float64
		says       string
	}{
		"three become one":                       {objects: base, now: 0.93, after: 0.31, says: "kind: ClusterAPINodeClass"},
		"and one of a cheaper MachineDeployment": {objects: base + other, now: 0.93, after: 0.1, says: "of any MachineDeployment of the Cluster"},
		"if it has not other taints":             {objects: base + other + tainted, now: 1.03, after: 0.31, says: "- worker-8x32"},
		"only of their own types":                {objects: base + other, args: []string{"--own-types"}, now: 0.93, after: 0.31, says: "3 nodes are replicas"},
		"prices of a file":                       {objects: strings.Replace(base, price, "annotations: {}", 1), args: []string{"--cluster-api-prices-file", prices}, now: 1.5, after: 0.5, says: "those that somebody wrote"},
		"no price":                               {objects: strings.Replace(base, price, "annotations: {}", 1), status: 1, says: "no price is known of nodes of MachineDeployment default/worker-8x32: set its annotation cluster.x-k8s.io/machine-current-price"},
		"a Machine of another node":              {objects: strings.ReplaceAll(base, `prod, providerID: "vsphere:`, `prod, providerID: "other:`), status: 1, says: "that of a Machine of Cluster API is found with --cluster-api-kubeconfig"},
		"Machines of two Clusters":               {objects: strings.Replace(base, "{clusterName: prod, providerID", "{clusterName: test, providerID", 1), status: 1, says: "of Machines of the Clusters default/prod, default/test: set --cluster-api-namespace"},
		"a class without prices":                 {objects: strings.Replace(claimed(base), price, "annotations: {}", 1), status: 1, says: "the price is unknown of nodes from default/worker-8x32: set the annotation"},
		"nodes of a NodePool":                    {objects: claimed(base), now: 0.93, after: 0.31, says: "those that somebody wrote"},
		"a class that is not there":              {objects: strings.Replace(claimed(base), "kind: ClusterAPINodeClass\nmetadata: {name: default}", "kind: ClusterAPINodeClass\nmetadata: {name: other}", 1), status: 1, says: "it is not in the files"},
		"redacted":                               {objects: base, args: []string{"--redact", "--cluster-api-namespace", "default"}, status: 2, says: "--redact can't be given with --cluster-api-namespace"},
		"of decisions":                           {objects: base, args: []string{"--since", "1h", "--cluster-api-namespace", "default"}, status: 2, says: "--cluster-api-namespace has no effect with --since"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "all.yaml")
			if err := os.WriteFile(path, []byte(tc.objects), 0o600); err != nil {
				t.Fatal(err)
			}
			var stdout, stderr bytes.Buffer
			status := Main(t.Context(), append([]string{"savings", "-f", path, "--html=", "-o", "json"}, tc.args...), &stdout, &stderr)
			var r savings.Report
			if status == 0 {
				if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
					t.Fatal(err)
				}
			}
			if status != tc.status || math.Abs(r.Now-tc.now) > 1e-9 || math.Abs(r.After-tc.after) > 1e-9 || !strings.Contains(stdout.String()+stderr.String(), tc.says) {
				t.Errorf("status %d, want %d; %.2f becomes %.2f, want %.2f and %.2f; it printed\n%s%s", status, tc.status, r.Now, r.After, tc.now, tc.after, stdout.String(), stderr.String())
			}
		})
	}
}

// claimed returns the replicas as nodes of the NodePool metal, which Dovetail launched.
func claimed(base string) string {
	pool, _, _ := strings.Cut(metalPool, "---\n")
	pool = strings.Replace(pool, "spec: {template", "spec: {disruption: {consolidateAfter: 0s}, template", 1)
	out := pool + "---\n" + strings.Replace(base, "  annotations: {cluster", "  labels: {node.cluster.x-k8s.io/karpenter-member: \"\"}\n  annotations: {cluster", 1)
	labels := `karpenter.sh/nodepool: metal, karpenter.sh/registered: "true", karpenter.sh/initialized: "true", karpenter.sh/capacity-type: on-demand, node.kubernetes.io/instance-type: worker-8x32, topology.kubernetes.io/zone: rack-a, `
	for _, n := range []string{"1", "2", "3"} {
		out += strings.ReplaceAll(`---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: cX, creationTimestamp: "2026-11-01T00:00:00Z", labels: {`+strings.TrimSuffix(labels, ", ")+`}}
spec: {nodeClassRef: {group: karpenter.cluster.x-k8s.io, kind: ClusterAPINodeClass, name: default}, requirements: []}
status: {nodeName: nX, providerID: "vsphere://X", conditions: [{type: Launched, status: "True"}, {type: Registered, status: "True"}, {type: Initialized, status: "True"}]}
`, "X", n)
	}
	return strings.ReplaceAll(out, "labels: {kubernetes.io/hostname", "labels: {"+labels+"kubernetes.io/hostname")
}

// TestWhatIfReadsMachineDeployments: what ClusterAPINodeClasses offer is among the files of --snapshot.
func TestWhatIfReadsMachineDeployments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	metal, upstream, pool := write("metal.yaml", metalManifests), write("upstream.yaml", upstreamManifests), write("pool.yaml", metalPool)
	pools, _, _ := strings.Cut(metalPool, "---\n")
	none := write("none.yaml", strings.Replace(pools, "requirements: []", "requirements: [{key: node.kubernetes.io/instance-type, operator: NotIn, values: [worker-8x32]}]", 1))
	another := write("another.yaml", strings.Replace(pools, "name: default}", "name: another}", 1))
	prices := write("prices", "medium: 0.5\n")
	for name, tc := range map[string]struct {
		line   string
		status int
		says   string
	}{
		"the price of a node to come":        {"whatif --policy WhenEmpty --snapshot " + metal, 0, "0.31"},
		"without the type":                   {"whatif --without-type worker-* --snapshot " + metal, 0, "NotIn"},
		"changed NodePools":                  {"diff -f " + none + " --snapshot " + metal, 0, "saves $0.3100/h"},
		"a changed class":                    {"diff -f " + another + " --snapshot " + metal, 1, "get node class ClusterAPINodeClass/another: it is not in the files"},
		"no price":                           {"whatif --policy WhenEmpty --snapshot " + upstream, 0, "unknown of nodes from capi/md: set the annotation cluster.x-k8s.io/machine-current-price"},
		"prices of a file":                   {"whatif --policy WhenEmpty --snapshot " + upstream + " --cluster-api-prices-file " + prices, 0, "0.5"},
		"without the objects of Cluster API": {"whatif --policy WhenEmpty --snapshot " + pool, 1, "instance types for NodePool metal: get node class ClusterAPINodeClass/default: it is not in the files"},
		"a token without an address":         {"diff -f " + none + " --cluster-api-token x --snapshot " + metal, 2, "need --cluster-api-url"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if says := called(t, tc.status, tc.line); !strings.Contains(says, tc.says) {
				t.Errorf("it says\n%s\nwant %q", says, tc.says)
			}
		})
	}
}

// TestTopReadsMachineDeployments: without a controller, nodes of a ClusterAPINodeClass have the prices of Cluster API's objects.
func TestTopReadsMachineDeployments(t *testing.T) {
	t.Parallel()
	base := claimed(replicas())
	for name, tc := range map[string]struct {
		objects string
		price   float64
		says    string
	}{
		"prices of annotations": {objects: base, price: 0.93},
		"no node class":         {objects: strings.Replace(base, "kind: ClusterAPINodeClass\nmetadata: {name: default}", "kind: ClusterAPINodeClass\nmetadata: {name: other}", 1), says: "instance types for NodePool metal: get node class ClusterAPINodeClass/default"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := []string{filepath.Join(t.TempDir(), "all.yaml")}
			if err := os.WriteFile(files[0], []byte(tc.objects), 0o600); err != nil {
				t.Fatal(err)
			}
			s := &clusterSource{
				host: "here", latest: &live.Latest{}, ready: make(chan struct{}),
				objects: func(context.Context) ([]client.Object, error) { return simulate.PresentIn(files) },
				offered: func(ctx context.Context) *providerTypes { return (&clusterAPIInput{}).classes(ctx, "", files) },
			}
			s.views = &live.Views{Latest: s.latest, Now: time.Now}
			s.err = s.read(t.Context())
			close(s.ready)
			var v view.Overview
			err := s.Fill(t.Context(), "overview", "", &v)
			if said := fmt.Sprint(err); tc.says != "" && !strings.Contains(said, tc.says) || tc.says == "" && err != nil {
				t.Errorf("it says %s, want %q", said, tc.says)
			}
			if math.Abs(v.Price.Hourly-tc.price) > 1e-9 {
				t.Errorf("the nodes cost %v, want %v", v.Price.Hourly, tc.price)
			}
		})
	}
}
