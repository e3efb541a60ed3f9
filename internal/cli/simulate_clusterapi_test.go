package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
