package aws

import (
	"cmp"
	"context"
	"fmt"
	"slices"
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
)

// images finds the Amazon Machine Images (AMIs) of classes.
type images struct {
	opts    *Options
	clients *clients
	cluster *clusterInfo
	found   cache[[]awsv1.AMI] // by class
	// aliases and parameters are values of SSM parameters; empty: there is none.
	aliases, parameters cache[string]
}

func newImages(opts *Options, clients *clients, cluster *clusterInfo) *images {
	return &images{
		opts: opts, clients: clients, cluster: cluster,
		found:   cache[[]awsv1.AMI]{now: opts.Now, ttl: opts.AMIRefresh - sooner},
		aliases: cache[string]{now: opts.Now, ttl: latestKept}, parameters: cache[string]{now: opts.Now, ttl: ownKept},
	}
}

// resolve puts the images of a class into its status.
func (s *images) resolve(ctx context.Context, class *awsv1.EC2NodeClass) (finding, error) {
	if name, _, ok := family.Alias(&class.Spec); ok {
		version, err := s.cluster.version(ctx)
		if err != nil {
			return finding{}, err
		}
		if why := aliasUnsupported(name, version); why != "" {
			class.Status.AMIs = nil
			return finding{reason: "UnsupportedAlias", message: why}, nil
		}
	}
	found, err := s.found.get(ctx, classKey(class), func(ctx context.Context) ([]awsv1.AMI, error) { return s.find(ctx, class) })
	if err != nil {
		return finding{}, err
	}
	class.Status.AMIs = found
	if name, version, ok := family.Alias(&class.Spec); ok && version == latest && slices.ContainsFunc(found, func(a awsv1.AMI) bool { return a.Deprecated }) {
		if kubernetes, err := s.cluster.version(ctx); err == nil {
			s.dropLatest(name, kubernetes) // there must be a later one
			s.found.drop(classKey(class))
		}
	}
	if len(found) == 0 {
		s.found.drop(classKey(class))
		return finding{reason: "AMINotFound", message: "no image matches spec.amiSelectorTerms", again: missingAgain}, nil
	}
	return finding{again: s.opts.AMIRefresh}, nil
}

// dropLatest forgets the images of an alias for latest, so that they are looked up again.
func (s *images) dropLatest(name, kubernetes string) {
	for _, parameter := range aliasParameters(name, latest, kubernetes) {
		s.aliases.drop(parameter.path)
	}
}

// image is an image with what it is for.
type image struct {
	awsv1.AMI
	created string
}

// find returns the images of a class, the newest first; of those for the same
// instances only the best.
func (s *images) find(ctx context.Context, class *awsv1.EC2NodeClass) ([]awsv1.AMI, error) {
	var found []image
	var err error
	if name, version, ok := family.Alias(&class.Spec); ok {
		found, err = s.ofAlias(ctx, name, version)
	} else {
		found, err = s.selected(ctx, class.Spec.AMISelectorTerms)
	}
	if err != nil {
		return nil, err
	}
	return bestImages(found), nil
}

func (s *images) ofAlias(ctx context.Context, name, version string) ([]image, error) {
	kubernetes, err := s.cluster.version(ctx)
	if err != nil {
		return nil, err
	}
	variants := map[string][]string{}
	var ids []string
	for _, parameter := range aliasParameters(name, version, kubernetes) {
		id, err := s.parameter(ctx, &s.aliases, parameter.path)
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
	images, err := s.describe(ctx, nil, filter("image-id", ids...))
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

func (s *images) selected(ctx context.Context, terms []awsv1.AMISelectorTerm) ([]image, error) {
	var ids []string
	var found []image
	for _, t := range terms {
		switch {
		case t.ID != "":
			ids = append(ids, t.ID)
			continue
		case t.SSMParameter != "":
			id, err := s.parameter(ctx, &s.parameters, t.SSMParameter)
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
		images, err := s.describe(ctx, owners, filters...)
		if err != nil {
			return nil, err
		}
		found = append(found, images...)
	}
	if len(ids) > 0 {
		images, err := s.describe(ctx, nil, filter("image-id", ids...))
		if err != nil {
			return nil, err
		}
		found = append(found, images...)
	}
	return found, nil
}

// parameter returns the value of an SSM parameter; empty: there is none of that name.
func (s *images) parameter(ctx context.Context, from *cache[string], name string) (string, error) {
	return from.get(ctx, name, func(ctx context.Context) (string, error) {
		out, err := s.clients.SSM.GetParameter(ctx, &ssm.GetParameterInput{Name: &name})
		if isNotFound(errorCode(err)) {
			return "", nil
		}
		if err != nil {
			return "", fmt.Errorf("get parameter %s: %w", name, err)
		}
		return aws.ToString(out.Parameter.Value), nil
	})
}

// describe returns the images that pass the filters, with the architecture as the
// requirement of each. Those of other architectures than ours are left out.
func (s *images) describe(ctx context.Context, owners []string, filters ...types.Filter) ([]image, error) {
	var found []image
	pages := ec2.NewDescribeImagesPaginator(s.clients.EC2, &ec2.DescribeImagesInput{
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
				ID: aws.ToString(described.ImageId), Name: aws.ToString(described.Name), Deprecated: err == nil && !s.opts.Now().Before(ends),
				Requirements: []corev1.NodeSelectorRequirement{{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{arch}}},
			}})
		}
	}
	return found, nil
}

// bestImages returns one image for each kind of instance: rather one that is not
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
