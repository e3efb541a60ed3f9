package aws

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/family"
)

const latest = "latest"

// Variants of an image: for instances without accelerators, with GPUs, with AWS' own.
const (
	variantStandard = "standard"
	variantNVIDIA   = "nvidia"
	variantNeuron   = "neuron"
)

// aliasParameter is an SSM parameter that holds the id of an image of an alias.
type aliasParameter struct {
	path     string
	variants []string
}

// aliasParameters returns the parameters of an alias for a version of Kubernetes.
func aliasParameters(name, version, kubernetes string) []aliasParameter {
	switch name {
	case "al2":
		path := func(flavour, node string) string {
			return fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2%s/%s/image_id", kubernetes, flavour, recommended(version, "amazon-eks-"+node+"-"+kubernetes+"-"))
		}
		return []aliasParameter{
			{path("", "node"), []string{variantStandard}},
			{path("-arm64", "arm64-node"), []string{variantStandard}},
			{path("-gpu", "gpu-node"), []string{variantNeuron, variantNVIDIA}},
		}
	case "al2023":
		var out []aliasParameter
		for _, of := range []struct{ arch, variant string }{
			{"x86_64", variantStandard}, {"x86_64", variantNVIDIA}, {"x86_64", variantNeuron}, {"arm64", variantStandard}, {"arm64", variantNVIDIA},
		} {
			out = append(out, aliasParameter{fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2023/%s/%s/%s/image_id", kubernetes, of.arch, of.variant,
				recommended(version, fmt.Sprintf("amazon-eks-node-al2023-%s-%s-%s-", of.arch, of.variant, kubernetes))), []string{of.variant}})
		}
		return out
	case "bottlerocket":
		path := func(flavour, arch string) string {
			return fmt.Sprintf("/aws/service/bottlerocket/aws-k8s-%s%s/%s/%s/image_id", kubernetes, flavour, arch, strings.TrimPrefix(version, "v"))
		}
		return []aliasParameter{
			{path("", "x86_64"), []string{variantStandard, variantNeuron}},
			{path("", "arm64"), []string{variantStandard}},
			{path("-nvidia", "x86_64"), []string{variantNVIDIA}},
			{path("-nvidia", "arm64"), []string{variantNVIDIA}},
		}
	}
	year := strings.TrimPrefix(name, "windows")
	return []aliasParameter{{fmt.Sprintf("/aws/service/ami-windows-latest/Windows_Server-%s-English-Core-EKS_Optimized-%s/image_id", year, kubernetes), []string{""}}}
}

// recommended returns the part of a path that names a version of an image.
func recommended(version, prefix string) string {
	if version == latest {
		return "recommended"
	}
	return prefix + version
}

// aliasUnsupported says why an alias has no images for a version of Kubernetes; empty: it may.
func aliasUnsupported(name, kubernetes string) string {
	_, after, _ := strings.Cut(kubernetes, ".")
	minor, err := strconv.Atoi(after)
	switch {
	case err != nil:
		return fmt.Sprintf("version %q of Kubernetes is not known", kubernetes)
	case name == "al2" && minor >= 33:
		return fmt.Sprintf("alias al2 has no images for Kubernetes %s; use al2023", kubernetes)
	case name == "windows2025" && minor < 35:
		return fmt.Sprintf("alias windows2025 has no images for Kubernetes %s; it needs 1.35", kubernetes)
	}
	return ""
}

// variantRequirements says which instances a variant is for.
func variantRequirements(alias, variant string) []corev1.NodeSelectorRequirement {
	const gpu, accelerator = awsv1.LabelInstanceGPUCount, awsv1.LabelInstanceAcceleratorCount
	is := func(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: op, Values: values}
	}
	switch variant {
	case variantStandard:
		return []corev1.NodeSelectorRequirement{is(accelerator, corev1.NodeSelectorOpDoesNotExist), is(gpu, corev1.NodeSelectorOpDoesNotExist)}
	case variantNVIDIA:
		return []corev1.NodeSelectorRequirement{is(gpu, corev1.NodeSelectorOpExists)}
	case variantNeuron:
		return []corev1.NodeSelectorRequirement{is(accelerator, corev1.NodeSelectorOpExists)}
	}
	spec := awsv1.EC2NodeClassSpec{AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: alias + "@" + latest}}}
	f := family.Of(&spec)
	return []corev1.NodeSelectorRequirement{is(corev1.LabelOSStable, corev1.NodeSelectorOpIn, f.OS), is(corev1.LabelWindowsBuild, corev1.NodeSelectorOpIn, f.WindowsBuild)}
}
