package aws

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

// networkPage is how many subnets or security groups a page has.
const networkPage = 500

// tagFilters returns the filters that match what has all of the tags; "*" is any value.
func tagFilters(tags map[string]string) []types.Filter {
	var out []types.Filter
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		if tags[key] == "*" {
			out = append(out, filter("tag-key", key))
			continue
		}
		out = append(out, filter("tag:"+key, tags[key]))
	}
	return out
}

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: aws.String(name), Values: values}
}

// subnetQueries returns the filters of the requests that terms come down to: one for all
// ids, one for each term of tags.
func subnetQueries(terms []awsv1.SubnetSelectorTerm) [][]types.Filter {
	var ids []string
	var out [][]types.Filter
	for _, t := range terms {
		if t.ID != "" {
			ids = append(ids, t.ID)
			continue
		}
		out = append(out, tagFilters(t.Tags))
	}
	if len(ids) > 0 {
		out = append(out, []types.Filter{filter("subnet-id", ids...)})
	}
	return out
}

// findSubnets returns the subnets of a class, those with most free addresses first.
func (p *Provider) findSubnets(ctx context.Context, class *awsv1.EC2NodeClass) ([]awsv1.Subnet, error) {
	free := map[string]int32{}
	var found []awsv1.Subnet
	for _, query := range subnetQueries(class.Spec.SubnetSelectorTerms) {
		pages := ec2.NewDescribeSubnetsPaginator(p.clients.EC2, &ec2.DescribeSubnetsInput{Filters: query, MaxResults: aws.Int32(networkPage)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, fmt.Errorf("describe subnets: %w", err)
			}
			for i := range page.Subnets {
				s := &page.Subnets[i]
				id := aws.ToString(s.SubnetId)
				if _, twice := free[id]; twice {
					continue
				}
				free[id] = aws.ToInt32(s.AvailableIpAddressCount)
				p.addresses.learn(id, int(free[id]))
				at := awsv1.Subnet{ID: id, Zone: aws.ToString(s.AvailabilityZone), ZoneID: aws.ToString(s.AvailabilityZoneId)}
				p.learnZone(at.Zone, at.ZoneID)
				found = append(found, at)
			}
		}
	}
	slices.SortFunc(found, func(a, b awsv1.Subnet) int {
		return cmp.Or(cmp.Compare(free[b.ID], free[a.ID]), strings.Compare(a.ID, b.ID))
	})
	return found, nil
}

// learnZone notes the id of a zone, which has another name in every account.
func (p *Provider) learnZone(name, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.zones[name] = id
}

// zoneID returns the id of a zone; empty: it is not known.
func (p *Provider) zoneID(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.zones[name]
}

// groupQueries is subnetQueries for security groups.
func groupQueries(terms []awsv1.SecurityGroupSelectorTerm) [][]types.Filter {
	var ids, names []string
	var out [][]types.Filter
	for _, t := range terms {
		switch {
		case t.ID != "":
			ids = append(ids, t.ID)
		case t.Name != "":
			names = append(names, t.Name)
		default:
			out = append(out, tagFilters(t.Tags))
		}
	}
	if len(ids) > 0 {
		out = append(out, []types.Filter{filter("group-id", ids...)})
	}
	if len(names) > 0 {
		out = append(out, []types.Filter{filter("group-name", names...)})
	}
	return out
}

// findSecurityGroups returns the security groups of a class, by id.
func (p *Provider) findSecurityGroups(ctx context.Context, class *awsv1.EC2NodeClass) ([]awsv1.SecurityGroup, error) {
	names := map[string]string{}
	for _, query := range groupQueries(class.Spec.SecurityGroupSelectorTerms) {
		pages := ec2.NewDescribeSecurityGroupsPaginator(p.clients.EC2, &ec2.DescribeSecurityGroupsInput{Filters: query, MaxResults: aws.Int32(networkPage)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, fmt.Errorf("describe security groups: %w", err)
			}
			for i := range page.SecurityGroups {
				names[aws.ToString(page.SecurityGroups[i].GroupId)] = aws.ToString(page.SecurityGroups[i].GroupName)
			}
		}
	}
	var found []awsv1.SecurityGroup
	for _, id := range slices.Sorted(maps.Keys(names)) {
		found = append(found, awsv1.SecurityGroup{ID: id, Name: names[id]})
	}
	return found, nil
}
