package capi

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// contractLabel says which version of a kind is of the contract v1beta2.
const contractLabel = "cluster.x-k8s.io/v1beta2"

// Definition returns the definition of a kind that keeps whatever it is given.
func Definition(group, kind, plural string, versions ...string) *apiextensionsv1.CustomResourceDefinition {
	d := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: plural, Singular: strings.ToLower(kind)},
		},
	}
	for i, v := range versions {
		d.Spec.Versions = append(d.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: v, Served: true, Storage: i == 0, Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}},
		})
	}
	return d
}

// definitions returns the definitions of Cluster API and its Dev provider, with the labels that their
// manifests add, and those of a bootstrap provider, an infrastructure and a control plane of our own.
func definitions(programs string) (all []*apiextensionsv1.CustomResourceDefinition, err error) {
	if all, err = readDefinitions(filepath.Join(programs, "crds")); err != nil {
		return nil, err
	}
	for kind, plural := range map[string]string{"KubeadmConfig": "kubeadmconfigs", "KubeadmConfigTemplate": "kubeadmconfigtemplates"} {
		d := Definition(bootstrapGroup, kind, plural, "v1beta2")
		d.Labels = map[string]string{contractLabel: "v1beta2"}
		all = append(all, d)
	}
	for _, d := range []*apiextensionsv1.CustomResourceDefinition{
		Definition(InfraGroup, "TestMachine", "testmachines", "v1beta1"),
		Definition(InfraGroup, "TestMachineTemplate", "testmachinetemplates", "v1beta1"),
		Definition(controlPlaneGroup, "TestControlPlane", "testcontrolplanes", "v1beta1"),
	} {
		d.Labels = map[string]string{contractLabel: "v1beta1"}
		all = append(all, d)
	}
	return all, nil
}

// Earlier returns the definitions of Cluster API and of kubeadm's bootstrap provider, of the release that the earlier Karpenter
// provider was made for, with a test infrastructure. They serve v1beta1 alone. The test is skipped where testkit.Binary skips it.
func Earlier(t testing.TB) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	all, err := readDefinitions(filepath.Join(testkit.Binary(t, "capi"), "earlier"))
	if err != nil {
		t.Fatal(err)
	}
	return append(all, Definition(InfraGroup, "TestMachine", "testmachines", "v1beta1"), Definition(InfraGroup, "TestMachineTemplate", "testmachinetemplates", "v1beta1"))
}

// readDefinitions reads the definitions in a directory.
func readDefinitions(dir string) (all []*apiextensionsv1.CustomResourceDefinition, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no definitions in %s: run make bin/capi (%w)", dir, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		d := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(text, d); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		d.Labels = map[string]string{contractLabel: "v1beta2"}
		all = append(all, d)
	}
	return all, nil
}
