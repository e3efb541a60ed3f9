package clusterapi_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

const (
	patience  = 3 * time.Minute
	pollEvery = 50 * time.Millisecond
)

// connect starts a dev cluster that has Cluster API's kinds in some versions, and our own.
func connect(t *testing.T, versions ...string) client.WithWatch {
	t.Helper()
	return clientWith(t, testkit.StartCluster(t), definitions(versions...)...)
}

// clientWith returns a client of a dev cluster in which it has installed definitions, and our own.
func clientWith(t *testing.T, devcluster *testkit.Cluster, definitions ...*apiextensionsv1.CustomResourceDefinition) client.WithWatch {
	t.Helper()
	if _, err := envtest.InstallCRDs(devcluster.Config, envtest.CRDInstallOptions{CRDs: definitions, Paths: []string{"../../../config/crd/karpenter.cluster.x-k8s.io_clusterapinodeclasses.yaml"}}); err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterapiv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.NewWithWatch(devcluster.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// createAll creates objects.
func createAll(t *testing.T, c client.Client, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatalf("create %s: %v", o.GetName(), err)
		}
	}
}

// world is what the tests are about: a Cluster, and for each class two MachineDeployments.
func world(t *testing.T, c client.Client, version string) {
	t.Helper()
	createAll(t, c,
		object(t, "apiVersion: %s/%s\nkind: Cluster\nmetadata: {name: metal, namespace: default}\nspec: {}", coreGroup, version),
		object(t, "apiVersion: %s/%s\nkind: KubeadmConfigTemplate\nmetadata: {name: worker, namespace: default}\nspec: {template: {spec: {joinConfiguration: {nodeRegistration: {taints: [{key: node.cluster.x-k8s.io/uninitialized, effect: NoSchedule}]}}}}}", bootGroup, version))
	for name, behavior := range map[string]string{"default": "{}", "accepts": "{delaySeconds: 2}", "fails": "{shortage: true}", "slow": "{delaySeconds: 3600}", "unready": "{}", "changing": "{}"} {
		class(t, c, name)
		for i, size := range []string{"small", "large"} {
			addDeployment(t, c, version, name, size, int64(2+2*i), behavior)
		}
	}
}

// addDeployment creates a MachineDeployment and its infrastructure template.
func addDeployment(t *testing.T, c client.Client, version, class, size string, cpus int64, behavior string) {
	t.Helper()
	template := object(t, "apiVersion: %s/v1beta1\nkind: TestMachineTemplate\nmetadata: {name: %s-%s, namespace: default}\nspec: {template: {spec: %s}}", infraGroup, class, size, behavior)
	for key, value := range map[string]any{"cpus": cpus, "memory": fmt.Sprintf("%dGi", 2*cpus)} {
		if err := unstructured.SetNestedField(template.Object, value, "spec", "template", "spec", key); err != nil {
			t.Fatal(err)
		}
	}
	refs := "bootstrap: {configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfigTemplate, name: worker}}, infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: TestMachineTemplate, name: %s-%s}"
	if version == "v1beta1" {
		refs = "bootstrap: {configRef: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta1, kind: KubeadmConfigTemplate, name: worker}}, infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: TestMachineTemplate, name: %s-%s}"
	}
	deployment := object(t, "apiVersion: %s/%s\nkind: MachineDeployment\nmetadata: {name: %s-%s, namespace: default, labels: {class: %s}}\n"+
		"spec: {clusterName: metal, replicas: 0, selector: {matchLabels: {pool: %s-%s}}, template: {metadata: {labels: {pool: %s-%s}}, spec: {clusterName: metal, version: v1.37.1, "+refs+"}}}",
		coreGroup, version, class, size, class, class, size, class, size, class, size)
	annotations := map[string]string{"capacity.cluster-autoscaler.kubernetes.io/labels": "node.kubernetes.io/instance-type=" + size, "cluster.x-k8s.io/machine-current-price": fmt.Sprintf("0.%d", cpus)}
	if class != "unready" {
		annotations["capacity.cluster-autoscaler.kubernetes.io/cpu"] = fmt.Sprint(cpus)
		annotations["capacity.cluster-autoscaler.kubernetes.io/memory"] = fmt.Sprintf("%dGi", 2*cpus)
	}
	deployment.SetAnnotations(annotations)
	createAll(t, c, template, deployment)
}

func newProvider(t cloudtest.T, c client.WithWatch) *clusterapi.Provider {
	t.Helper()
	p, err := clusterapi.New(c, clusterapi.Options{Management: c, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func ref(name string) cloud.ClassRef {
	return cloud.ClassRef{Group: clusterapiv1alpha1.Group, Kind: clusterapiv1alpha1.Kind, Name: name}
}

// decided is a Provider that answers launches of class default when they have their provider ID: what
// the suite says of other classes is said of the Provider as it is.
type decided struct{ *clusterapi.Provider }

func (d decided) Launch(ctx context.Context, requests []cloud.LaunchRequest) []cloud.LaunchResult {
	results := d.Provider.Launch(ctx, requests)
	for i := range results {
		if requests[i].Class != ref("default") || results[i].Err != nil {
			continue
		}
		undecided := wait.PollUntilContextTimeout(ctx, pollEvery, patience, true, func(ctx context.Context) (bool, error) {
			if !results[i].Instance.Provisional {
				return true, nil
			}
			results[i].Instance, results[i].Err = d.Get(ctx, results[i].Instance.ID)
			return false, results[i].Err
		})
		results[i].Err = cmp.Or(results[i].Err, undecided)
	}
	return results
}

// started has a provider watch what its types are made from until the test ends.
func started(t *testing.T, p *clusterapi.Provider) *clusterapi.Provider {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.Start(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return p
}

func harness(t *testing.T, c client.WithWatch) cloudtest.Harness {
	t.Helper()
	return cloudtest.Harness{
		Provider: decided{started(t, newProvider(t, c))},
		Changing: ref("changing"), Change: func(ct cloudtest.T) {
			ct.Helper()
			mapping, err := c.RESTMapper().RESTMapping(schema.GroupKind{Group: coreGroup, Kind: "MachineDeployment"})
			if err != nil {
				ct.Fatal(err)
			}
			o := &unstructured.Unstructured{}
			o.SetGroupVersionKind(mapping.GroupVersionKind)
			o.SetNamespace("default")
			o.SetName("changing-small")
			price := []byte(`{"metadata": {"annotations": {"cluster.x-k8s.io/machine-current-price": "0.77"}}}`)
			if err := c.Patch(ct.Context(), o, client.RawPatch(types.MergePatchType, price)); err != nil {
				ct.Fatal(err)
			}
		},
		Restart: func(t cloudtest.T) cloud.Provider { return decided{newProvider(t, c)} },
		Class:   ref("default"), Missing: ref("missing"), Unready: ref("unready"), Slow: ref("slow"), Accepts: ref("accepts"), Fails: ref("fails"),
		Registered: true, Notified: true,
		Node: func(ct cloudtest.T, id string) *corev1.Node {
			ct.Helper()
			var found *corev1.Node
			testkit.Eventually(t, patience, func() error {
				var nodes corev1.NodeList
				if err := c.List(t.Context(), &nodes); err != nil {
					return err
				}
				for i := range nodes.Items {
					if nodes.Items[i].Spec.ProviderID == id {
						found = &nodes.Items[i]
						return nil
					}
				}
				return errors.New("no Node has the provider ID " + id)
			})
			return found
		},
	}
}

// TestConformance runs the suite against each version of Cluster API.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1beta2", "v1beta1"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := connect(t, version)
			world(t, c, version)
			(&fakeCAPI{t: t, client: c, version: version}).run()
			cloudtest.Run(t, func(t *testing.T) cloudtest.Harness { return harness(t, c) })
		})
	}
}
