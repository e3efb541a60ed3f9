package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/checkup"
	"github.com/dovetail-sh/dovetail/internal/operator"
)

// capiWorld is a management cluster and the cluster of the nodes, which are one.
type capiWorld struct {
	// version is that of Cluster API; empty: it is not there. denied are rights that the account does not have.
	version string
	denied  []string
	objects []string
	// down is the error of whatever is read.
	down error
}

func (w capiWorld) findings(t *testing.T) []Finding {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: "cluster.x-k8s.io", Version: w.version}, {Group: "infrastructure.cluster.x-k8s.io", Version: w.version}})
	for kind, version := range map[string]string{
		"Cluster": "cluster.x-k8s.io/", "Machine": "cluster.x-k8s.io/", "MachineDeployment": "cluster.x-k8s.io/",
		"VSphereMachine": "infrastructure.cluster.x-k8s.io/", "VSphereMachineTemplate": "infrastructure.cluster.x-k8s.io/",
	} {
		if gv, err := schema.ParseGroupVersion(version + w.version); err == nil && w.version != "" {
			mapper.Add(gv.WithKind(kind), meta.RESTScopeNamespace)
		}
	}
	b := fake.NewClientBuilder().WithScheme(operator.Scheme()).WithRESTMapper(mapper).WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "cluster-1"}})
	for _, text := range w.objects {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		switch o.GetKind() {
		case clusterapiv1alpha1.Kind:
			b = b.WithObjects(typed(t, o, &clusterapiv1alpha1.ClusterAPINodeClass{}))
		case "NodeClaim":
			b = b.WithObjects(typed(t, o, &karpenterv1.NodeClaim{}))
		default:
			o.SetNamespace("metal")
			b = b.WithObjects(o)
		}
	}
	c := b.WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			review := o.(*authorizationv1.SelfSubjectAccessReview)
			asks := review.Spec.ResourceAttributes
			review.Status.Allowed = !slices.Contains(w.denied, asks.Verb+" "+asks.Resource) && asks.Namespace == "metal"
			return w.down
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if w.down != nil {
				return w.down
			}
			return c.List(ctx, list, opts...)
		},
	}).Build()
	return ClusterAPI(t.Context(), c, Management{Client: c, Namespace: "metal"})
}

func typed[T client.Object](t *testing.T, o *unstructured.Unstructured, into T) T {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into); err != nil {
		t.Fatal(err)
	}
	return into
}

const (
	capiClass   = "{apiVersion: karpenter.cluster.x-k8s.io/v1alpha1, kind: ClusterAPINodeClass, metadata: {name: default}}"
	capiCluster = "{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: prod}, spec: {}}"
	capiSized   = "{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: VSphereMachineTemplate, metadata: {name: sized}, spec: {template: {spec: {numCPUs: 8, memoryMiB: 32768}}}}"
	capiBare    = "{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: VSphereMachineTemplate, metadata: {name: bare}, spec: {template: {spec: {}}}}"
)

// capiDeployment returns a MachineDeployment with a template, and with more.
func capiDeployment(name, template, annotations, domain string) string {
	return `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: ` + name + `, labels: {node.cluster.x-k8s.io/karpenter-member: ""}, annotations: {` + annotations + `}}
spec:
  clusterName: prod
  template:
    spec:
      failureDomain: "` + domain + `"
      bootstrap: {dataSecretName: data}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: VSphereMachineTemplate, name: ` + template + `}
`
}

// capiMachine returns a Machine of ours that was launched for a NodeClaim.
func capiMachine(name, token string) string {
	return `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata:
  name: ` + name + `
  labels: {dovetail.sh/cluster-uid: cluster-1}
  annotations: {pre-drain.delete.hook.machine.cluster.x-k8s.io/dovetail: dovetail, dovetail.sh/launch: '{"token": "` + token + `"}'}
spec: {providerID: "vsphere://` + name + `"}
`
}

func TestClusterAPI(t *testing.T) {
	t.Parallel()
	served := Finding{Check: managementCheck, Status: checkup.OK, Found: "Cluster, MachineDeployment and Machine of cluster.x-k8s.io/v1beta2"}
	allowed := func(n string) Finding {
		return Finding{Check: rightsCheck, Status: checkup.OK, Found: "all " + n + " are allowed in metal"}
	}
	held := Finding{Check: heldCheck, Status: checkup.OK, Found: "each of 0 Machines has its NodeClaim"}
	const check = "MachineDeployments of default"
	for name, test := range map[string]struct {
		world capiWorld
		want  []Finding
	}{
		"Cluster API is not there": {
			capiWorld{},
			[]Finding{{Check: managementCheck, Status: checkup.Failed, Found: "the management cluster has no Cluster of cluster.x-k8s.io", Remedy: "install Cluster API 1.10 or newer"}},
		},
		"all is well": {
			capiWorld{version: "v1beta2", objects: []string{capiClass, capiCluster, capiSized, capiDeployment("large", "sized", `cluster.x-k8s.io/machine-current-price: "0.3"`, "rack-1")}},
			[]Finding{served, allowed("12"), {Check: check, Status: checkup.OK, Found: "the class selects 1: metal/large"}, held},
		},
		"neither capacity nor price nor failure domain": {
			capiWorld{version: "v1beta2", objects: []string{capiClass, capiCluster, capiSized, capiBare, capiDeployment("large", "sized", "", ""), capiDeployment("other", "bare", "", "")}},
			[]Finding{
				served, allowed("12"),
				{Check: check, Status: checkup.OK, Found: "the class selects 2: metal/large, metal/other"},
				{Check: check, Status: checkup.Warning, Found: "MachineDeployment metal/other: the cpu and memory of its nodes is not known", Remedy: "docs/clusterapi.md"},
				{Check: check, Status: checkup.Warning, Found: "no price, so consolidation leaves their nodes alone: metal/large", Remedy: "set the annotation cluster.x-k8s.io/machine-current-price"},
				{Check: check, Status: checkup.Warning, Found: "no failure domain, so pods that are spread over zones or want one have none there: metal/large", Remedy: "set spec.template.spec.failureDomain"},
				held,
			},
		},
		"the class selects nothing": {
			capiWorld{version: "v1beta2", objects: []string{capiClass}},
			[]Finding{served, allowed("9"), {Check: check, Status: checkup.Failed, Found: "the class selects none", Remedy: "give those that nodes are to be launched from the label"}, held},
		},
		"no class": {
			capiWorld{version: "v1beta2"},
			[]Finding{served, allowed("9"), {Check: "ClusterAPINodeClass", Status: checkup.Warning, Found: "there is none", Remedy: "create one"}, held},
		},
		"rights are missing, of clones, too": {
			capiWorld{
				version: "v1beta2", denied: []string{"delete machines", "create vspheremachines"},
				objects: []string{capiClass, capiCluster, capiSized, capiDeployment("large", "sized", `cluster.x-k8s.io/machine-current-price: "0.3"`, "rack-1")},
			},
			[]Finding{
				served,
				{Check: rightsCheck, Status: checkup.Failed, Found: "not allowed in metal: delete machines, create vspheremachines", Remedy: "give the account the Role of deploy/kubernetes/providers/clusterapi.yaml"},
				{Check: check, Status: checkup.OK, Found: "the class selects 1: metal/large"},
				held,
			},
		},
		"Machines of claims that are gone": {
			capiWorld{version: "v1beta2", objects: []string{
				capiMachine("kept", "uid-1"), capiMachine("known", "uid-2"), capiMachine("lost", "uid-3"),
				"{apiVersion: karpenter.sh/v1, kind: NodeClaim, metadata: {name: kept, uid: uid-1}}",
				`{apiVersion: karpenter.sh/v1, kind: NodeClaim, metadata: {name: known, uid: uid-9}, status: {providerID: "vsphere://known"}}`,
			}},
			[]Finding{
				served, allowed("9"),
				{Check: "ClusterAPINodeClass", Status: checkup.Warning, Found: "there is none", Remedy: "create one"},
				{Check: heldCheck, Status: checkup.Warning, Found: "1 have no NodeClaim, and a deletion of them waits for the controller: metal/lost", Remedy: "the controller ends them when it runs"},
			},
		},
		"nothing can be read": {
			capiWorld{version: "v1beta2", down: errors.New("no route to host")},
			[]Finding{
				served,
				{Check: rightsCheck, Status: checkup.Skipped, Found: "no route to host"},
				{Check: "ClusterAPINodeClass", Status: checkup.Skipped, Found: "no route to host"},
				{Check: heldCheck, Status: checkup.Skipped, Found: "list Machines: no route to host"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := test.world.findings(t)
			for i := range got { // of long texts the beginning is compared
				if i < len(test.want) && strings.HasPrefix(got[i].Found, test.want[i].Found) && test.want[i].Found != "" {
					got[i].Found = test.want[i].Found
				}
				if i < len(test.want) && strings.HasPrefix(got[i].Remedy, test.want[i].Remedy) && test.want[i].Remedy != "" {
					got[i].Remedy = test.want[i].Remedy
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("ClusterAPI() (-want +got):\n%s", diff)
			}
		})
	}
}
