package aws

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/family"
)

const (
	// latestKept is how long the image of an alias is taken for the latest; ownKept is that
	// of a parameter that the user names.
	latestKept = 24 * time.Hour
	ownKept    = 5 * time.Minute
	latest     = "latest"
)

// Variants of an image: for machines without accelerators, with GPUs, with AWS' own.
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

// parameter returns the value of an SSM parameter; empty: there is none of that name.
func (p *Provider) parameter(ctx context.Context, from *cache[string], name string) (string, error) {
	return from.get(ctx, name, func(ctx context.Context) (string, error) {
		out, err := p.clients.SSM.GetParameter(ctx, &ssm.GetParameterInput{Name: &name})
		if isNotFound(errorCode(err)) {
			return "", nil
		}
		if err != nil {
			return "", fmt.Errorf("get parameter %s: %w", name, err)
		}
		return aws.ToString(out.Parameter.Value), nil
	})
}

// image is an image with what it is for.
type image struct {
	awsv1.AMI
	created string
}

// findImages returns the images of a class, the newest first; of those for the same
// machines only the best.
func (p *Provider) findImages(ctx context.Context, class *awsv1.EC2NodeClass) ([]awsv1.AMI, error) {
	var found []image
	var err error
	if name, version, ok := family.Alias(&class.Spec); ok {
		found, err = p.aliasImages(ctx, name, version)
	} else {
		found, err = p.selectedImages(ctx, class.Spec.AMISelectorTerms)
	}
	if err != nil {
		return nil, err
	}
	return bestImages(found), nil
}

func (p *Provider) aliasImages(ctx context.Context, name, version string) ([]image, error) {
	kubernetes, err := p.kubernetesVersion(ctx)
	if err != nil {
		return nil, err
	}
	variants := map[string][]string{}
	var ids []string
	for _, parameter := range aliasParameters(name, version, kubernetes) {
		id, err := p.parameter(ctx, &p.aliases, parameter.path)
		if err != nil {
			return nil, err
		}
		if id != "" {
			ids = append(ids, id)
			variants[id] = append(variants[id], parameter.variants...)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	images, err := p.describeImages(ctx, nil, filter("image-id", ids...))
	if err != nil {
		return nil, err
	}
	var found []image
	for _, i := range images {
		for _, variant := range variants[i.ID] {
			v := i
			v.Requirements = append(slices.Clone(i.Requirements), variantRequirements(name, variant)...)
			found = append(found, v)
		}
	}
	return found, nil
}

// variantRequirements says which machines a variant is for.
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

func (p *Provider) selectedImages(ctx context.Context, terms []awsv1.AMISelectorTerm) ([]image, error) {
	var ids []string
	var found []image
	for _, t := range terms {
		switch {
		case t.ID != "":
			ids = append(ids, t.ID)
			continue
		case t.SSMParameter != "":
			id, err := p.parameter(ctx, &p.parameters, t.SSMParameter)
			if err != nil {
				return nil, err
			}
			if strings.HasPrefix(id, "ami-") {
				ids = append(ids, id)
			}
			continue
		}
		filters := tagFilters(t.Tags)
		var owners []string
		if t.Name != "" {
			filters, owners = append(filters, filter("name", t.Name)), []string{"self", "amazon"}
		}
		if t.Owner != "" {
			owners = []string{t.Owner}
		}
		images, err := p.describeImages(ctx, owners, filters...)
		if err != nil {
			return nil, err
		}
		found = append(found, images...)
	}
	if len(ids) > 0 {
		images, err := p.describeImages(ctx, nil, filter("image-id", ids...))
		if err != nil {
			return nil, err
		}
		found = append(found, images...)
	}
	return found, nil
}

// describeImages returns the images that pass the filters, with the architecture as the
// requirement of each. Those of other architectures than ours are left out.
func (p *Provider) describeImages(ctx context.Context, owners []string, filters ...types.Filter) ([]image, error) {
	var found []image
	pages := ec2.NewDescribeImagesPaginator(p.clients.EC2, &ec2.DescribeImagesInput{
		Owners: owners, Filters: append(filters, filter("state", "available")), IncludeDeprecated: aws.Bool(true), MaxResults: aws.Int32(pageMost),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("describe images: %w", err)
		}
		for i := range page.Images {
			described := &page.Images[i]
			arch, ours := map[types.ArchitectureValues]string{types.ArchitectureValuesX8664: "amd64", types.ArchitectureValuesArm64: "arm64"}[described.Architecture]
			if !ours {
				continue
			}
			ends, err := time.Parse(time.RFC3339, aws.ToString(described.DeprecationTime))
			found = append(found, image{created: aws.ToString(described.CreationDate), AMI: awsv1.AMI{
				ID: aws.ToString(described.ImageId), Name: aws.ToString(described.Name), Deprecated: err == nil && !p.opts.Now().Before(ends),
				Requirements: []corev1.NodeSelectorRequirement{{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{arch}}},
			}})
		}
	}
	return found, nil
}

// bestImages returns one image for each kind of machine: rather one that is not
// deprecated, then the newest, then by name. The newest is first.
func bestImages(found []image) []awsv1.AMI {
	for i := range found {
		slices.SortFunc(found[i].Requirements, func(a, b corev1.NodeSelectorRequirement) int {
			return cmp.Or(cmp.Compare(len(a.Key), len(b.Key)), strings.Compare(a.Key, b.Key))
		})
	}
	slices.SortFunc(found, func(a, b image) int {
		deprecated := 0
		if a.Deprecated != b.Deprecated {
			if deprecated = -1; a.Deprecated {
				deprecated = 1
			}
		}
		return cmp.Or(deprecated, strings.Compare(b.created, a.created), strings.Compare(b.Name, a.Name), strings.Compare(a.ID, b.ID))
	})
	taken := map[string]bool{}
	var best []image
	for _, i := range found {
		if key := fmt.Sprint(i.Requirements); !taken[key] {
			taken[key] = true
			best = append(best, i)
		}
	}
	slices.SortStableFunc(best, func(a, b image) int {
		return cmp.Or(strings.Compare(b.created, a.created), strings.Compare(a.ID, b.ID))
	})
	out := make([]awsv1.AMI, 0, len(best))
	for _, i := range best {
		out = append(out, i.AMI)
	}
	return out
}

// kubernetesVersion returns major.minor of the cluster.
func (p *Provider) kubernetesVersion(ctx context.Context) (string, error) {
	return p.versions.get(ctx, "", func(ctx context.Context) (string, error) {
		version, err := p.opts.KubernetesVersion(ctx)
		if err != nil {
			return "", fmt.Errorf("find the version of Kubernetes: %w", err)
		}
		return version, nil
	})
}
