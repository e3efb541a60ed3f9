package clusterapi_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// source is a management cluster: what MachineDeployments, their templates and a class say.
type source struct {
	// class is the spec of the class, and cluster are fields of the Cluster.
	class, cluster string
	// template are fields of an infrastructure template, and kubelet what the bootstrap template has the kubelets do.
	template, kubelet string
	// deployments are fields of metadata.
	deployments []string
}

// inMemory returns a management cluster that is no process, with one kind of infrastructure objects.
func inMemory(t *testing.T, infrastructure string) *fake.ClientBuilder {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterapiv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	kinds := map[schema.GroupVersion][]string{
		{Group: coreGroup, Version: "v1beta2"}: {"Cluster", "MachineDeployment", "Machine"}, {Group: infraGroup, Version: "v1beta2"}: {infrastructure, infrastructure + "Template"},
		{Group: bootGroup, Version: "v1beta2"}: {"KubeadmConfig", "KubeadmConfigTemplate"},
	}
	mapper := meta.NewDefaultRESTMapper(slices.Collect(maps.Keys(kinds)))
	for version, all := range kinds {
		for _, kind := range all {
			mapper.Add(version.WithKind(kind), meta.RESTScopeNamespace)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "u"}})
}

// examined returns the instance types, a line each, and then the notes.
func (s source) examined(t *testing.T) string {
	t.Helper()
	template := object(t, "{apiVersion: %s/v1beta2, metadata: {name: t, namespace: default}, %s}", infraGroup, s.template)
	b := inMemory(t, strings.TrimSuffix(template.GetKind(), "Template")).WithObjects(
		template, object(t, "{apiVersion: %s/v1beta2, kind: Cluster, metadata: {name: c, namespace: default}, %s}", coreGroup, cmp.Or(s.cluster, "spec: {}")),
		object(t, "{apiVersion: %s/v1beta2, kind: KubeadmConfigTemplate, metadata: {name: b, namespace: default}, spec: {template: {spec: {joinConfiguration: {nodeRegistration: {kubeletExtraArgs: %s}}}}}}", bootGroup, cmp.Or(s.kubelet, "[]")),
	)
	for i, metadata := range s.deployments {
		d := object(t, "{apiVersion: %s/v1beta2, kind: MachineDeployment, metadata: {%s}, spec: {clusterName: c, template: {spec: {bootstrap: {configRef: {apiGroup: %s, kind: KubeadmConfigTemplate, name: b}}, infrastructureRef: {apiGroup: %s, kind: %s, name: t}}}}}",
			coreGroup, metadata, bootGroup, infraGroup, template.GetKind())
		d.SetNamespace("default")
		d.SetName(fmt.Sprintf("md-%d", i+1))
		d.SetLabels(map[string]string{clusterapi.MemberLabel: ""})
		b = b.WithObjects(d)
	}
	class := &clusterapiv1alpha1.ClusterAPINodeClass{ObjectMeta: metav1.ObjectMeta{Name: "metal"}}
	if err := yaml.UnmarshalStrict([]byte(s.class), &class.Spec); err != nil {
		t.Fatal(err)
	}
	x, err := clusterapi.Examine(t.Context(), newProvider(t, b.Build()), class)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, typ := range x.Types {
		line := fmt.Sprintf("%s cpu %dm memory %dMi pods %d", typ.Name, typ.Capacity[quantity.CPU], typ.Capacity[quantity.Memory]>>20, typ.Capacity[quantity.Pods])
		for _, more := range []string{"ephemeral-storage", "nvidia.com/gpu", "example.com/fpga"} {
			if n := typ.Capacity[more]; n > 0 {
				line += fmt.Sprintf(" %s %d", more, n)
			}
		}
		line += fmt.Sprintf("; of pods %dm %dMi;", typ.Allocatable()[quantity.CPU], typ.Allocatable()[quantity.Memory]>>20)
		for i := range typ.Offerings {
			o := &typ.Offerings[i]
			line += fmt.Sprintf(" %q %s", o.Zone, o.CapacityType)
			if o.Priced {
				line += fmt.Sprint(" ", o.PriceHourly)
			}
			if !o.Available {
				line += " unavailable"
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(append(lines, x.Notes...), "\n")
}

// TestCatalog makes instance types from what the objects of a management cluster say.
func TestCatalog(t *testing.T) {
	t.Parallel()
	const (
		vsphere = "kind: VSphereMachineTemplate, spec: {template: {spec: {numCPUs: 4, memoryMiB: 8192, diskGiB: 10}}}"
		bare    = "kind: Metal3MachineTemplate, spec: {template: {spec: {}}}"
		sized   = `annotations: {capacity.cluster-autoscaler.kubernetes.io/cpu: "2", capacity.cluster-autoscaler.kubernetes.io/memory: 4Gi`
		prefix  = "capacity.cluster-autoscaler.kubernetes.io/"
		small   = "md-1 cpu 2000m memory 4096Mi pods 110; of pods 2000m 4096Mi; \"\" on-demand"
	)
	for name, tc := range map[string]struct {
		source
		want string
	}{
		"vSphere":  {source{template: vsphere, deployments: []string{""}}, "md-1 cpu 4000m memory 8192Mi pods 110 ephemeral-storage 10737418240; of pods 4000m 8192Mi; \"\" on-demand"},
		"Proxmox":  {source{template: "kind: ProxmoxMachineTemplate, spec: {template: {spec: {numSockets: 2, numCores: 4, memoryMiB: 8192}}}", deployments: []string{""}}, "md-1 cpu 8000m memory 8192Mi pods 110; of pods 8000m 8192Mi; \"\" on-demand"},
		"Nutanix":  {source{template: "kind: NutanixMachineTemplate, spec: {template: {spec: {vcpuSockets: 2, vcpusPerSocket: 1, memorySize: 4Gi}}}", deployments: []string{""}}, "md-1 cpu 2000m memory 4096Mi pods 110; of pods 2000m 4096Mi; \"\" on-demand"},
		"KubeVirt": {source{template: "kind: KubevirtMachineTemplate, spec: {template: {spec: {virtualMachineTemplate: {spec: {template: {spec: {domain: {cpu: {cores: 2}, memory: {guest: 4Gi}}}}}}}}}", deployments: []string{""}}, "md-1 cpu 2000m memory 4096Mi pods 110; of pods 2000m 4096Mi; \"\" on-demand"},
		"status.capacity comes before fields, with GPUs": {
			source{template: "kind: VSphereMachineTemplate, spec: {template: {spec: {numCPUs: 4, memoryMiB: 8192}}}, status: {capacity: {cpu: 3, nvidia.com/gpu: 1}}", deployments: []string{""}},
			"md-1 cpu 3000m memory 8192Mi pods 110 nvidia.com/gpu 1; of pods 3000m 8192Mi; \"\" on-demand",
		},
		"annotations come before all": {
			source{template: vsphere, deployments: []string{sized + ", " + prefix + `maxPods: "20", ` + prefix + `gpu-count: "2", ` + prefix + "gpu-type: example.com/fpga}"}},
			"md-1 cpu 2000m memory 4096Mi pods 20 ephemeral-storage 10737418240 example.com/fpga 2; of pods 2000m 4096Mi; \"\" on-demand",
		},
		"the class says what nobody else does": {
			source{template: bare, class: "{types: [{name: md-1, capacity: {cpu: 2, memory: 4Gi}, overhead: {cpu: 100m}}]}", deployments: []string{""}},
			"md-1 cpu 2000m memory 4096Mi pods 110; of pods 1900m 4096Mi; \"\" on-demand",
		},
		"nobody says": {
			source{template: bare, deployments: []string{"", sized + "}"}},
			"md-2 cpu 2000m memory 4096Mi pods 110; of pods 2000m 4096Mi; \"\" on-demand\nMachineDeployment default/md-1: the cpu and memory of its nodes is not known: set the annotations capacity.cluster-autoscaler.kubernetes.io/cpu and capacity.cluster-autoscaler.kubernetes.io/memory, or spec.types of the node class, or have it make one node, from which it is learned",
		},
		"the kubelet's arguments, as a list": {
			source{template: bare, kubelet: "[{name: kube-reserved, value: 'cpu=200m,memory=1Gi'}, {name: system-reserved, value: cpu=100m}, {name: eviction-hard, value: 'memory.available<100Mi'}, {name: max-pods, value: '30'}]", deployments: []string{sized + "}"}},
			"md-1 cpu 2000m memory 4096Mi pods 30; of pods 1700m 2972Mi; \"\" on-demand",
		},
		"the kubelet's arguments, as a map": {source{template: bare, kubelet: "{kube-reserved: cpu=200m}", deployments: []string{sized + "}"}}, "md-1 cpu 2000m memory 4096Mi pods 110; of pods 1800m 4096Mi; \"\" on-demand"},
		"one price annotation":              {source{template: bare, deployments: []string{sized + `, cluster.x-k8s.io/machine-current-price: "0.5"}`}}, small + " 0.5"},
		"the other, before the class":       {source{template: bare, class: `{types: [{name: md-1, priceHourly: "0.7"}]}`, deployments: []string{sized + ", " + prefix + `price: "0.6"}`}}, small + " 0.6"},
		"the price of the class":            {source{template: bare, class: `{types: [{name: md-1, priceHourly: "0.7"}]}`, deployments: []string{sized + "}"}}, small + " 0.7"},
		"a price that is none": {
			source{template: bare, deployments: []string{sized + `, cluster.x-k8s.io/machine-current-price: "cheap"}`}},
			small + "\nMachineDeployment default/md-1: its price counts as unknown: annotation cluster.x-k8s.io/machine-current-price: \"cheap\" is not a price in dollars an hour",
		},
		"two of one type: the cheaper is what is offered": {source{template: bare, deployments: []string{
			sized + ", " + prefix + "labels: node.kubernetes.io/instance-type=m, " + prefix + `price: "2"}`, sized + ", " + prefix + "labels: node.kubernetes.io/instance-type=m, " + prefix + `price: "1"}`,
		}}, "m cpu 2000m memory 4096Mi pods 110; of pods 2000m 4096Mi; \"\" on-demand 1"},
		"two of one type that are not equal": {source{template: bare, deployments: []string{
			sized + ", " + prefix + "labels: node.kubernetes.io/instance-type=m}", sized + ", " + prefix + "labels: 'node.kubernetes.io/instance-type=m,a=b'}",
		}}, "m cpu 2000m memory 4096Mi pods 110; of pods 2000m 4096Mi; \"\" on-demand\nMachineDeployment default/md-2: its instance type m is also that of default/md-1, which has other labels or another capacity: give one of them another label node.kubernetes.io/instance-type"},
		"spot, in each failure domain of the Cluster": {
			source{template: bare, cluster: "status: {failureDomains: [{name: fd-1}, {name: fd-2, attributes: {topology.kubernetes.io/zone: z2}}]}", deployments: []string{sized + ", " + prefix + "labels: karpenter.sh/capacity-type=spot}"}},
			"md-1 cpu 2000m memory 4096Mi pods 110; of pods 2000m 4096Mi; \"fd-1\" spot \"z2\" spot",
		},
		"a paused MachineDeployment": {source{template: bare, deployments: []string{sized + `, cluster.x-k8s.io/paused: ""}`}}, small + " unavailable\nMachineDeployment default/md-1: it is paused"},
		"a paused Cluster":           {source{template: bare, cluster: "spec: {paused: true}", deployments: []string{sized + "}"}}, small + " unavailable\nMachineDeployment default/md-1: its Cluster c is paused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.examined(t); got != tc.want {
				t.Errorf("the catalog is\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}
