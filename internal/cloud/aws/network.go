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

// network finds the subnets and security groups of classes.
type network struct {
	opts      *Options
	clients   *clients
	zones     *zones
	addresses *addresses
	subnets   cache[[]awsv1.Subnet]        // by class
	groups    cache[[]awsv1.SecurityGroup] // by class
}

func newNetwork(opts *Options, clients *clients, z *zones, a *addresses) *network {
	return &network{
		opts: opts, clients: clients, zones: z, addresses: a,
		subnets: cache[[]awsv1.Subnet]{now: opts.Now, ttl: opts.SubnetRefresh - sooner},
		groups:  cache[[]awsv1.SecurityGroup]{now: opts.Now, ttl: opts.GroupRefresh - sooner},
	}
}

// resolveSubnets puts the subnets of a class into its status.
func (n *network) resolveSubnets(ctx context.Context, class *awsv1.EC2NodeClass) (finding, error) {
	found, err := n.subnets.get(ctx, classKey(class), func(ctx context.Context) ([]awsv1.Subnet, error) { return n.findSubnets(ctx, class) })
	if err != nil {
		return finding{}, err
	}
	class.Status.Subnets = stable(class.Status.Subnets, found)
	if len(found) == 0 {
		n.subnets.drop(classKey(class))
		return finding{reason: "SubnetsNotFound", message: "no subnets found: none matches spec.subnetSelectorTerms", again: missingAgain}, nil
	}
	return finding{again: n.opts.SubnetRefresh}, nil
}

// stable returns the subnets in the order they had if they are the same: the order by free
// addresses is for people, and not worth a write each minute.
func stable(had, found []awsv1.Subnet) []awsv1.Subnet {
	byID := func(list []awsv1.Subnet) []awsv1.Subnet {
		return slices.SortedFunc(slices.Values(list), func(a, b awsv1.Subnet) int { return cmp.Compare(a.ID, b.ID) })
	}
	if slices.Equal(byID(had), byID(found)) {
		return had
	}
	return found
}

// findSubnets returns the subnets of a class, those with most free addresses first.
func (n *network) findSubnets(ctx context.Context, class *awsv1.EC2NodeClass) ([]awsv1.Subnet, error) {
	free := map[string]int32{}
	var found []awsv1.Subnet
	for _, query := range subnetQueries(class.Spec.SubnetSelectorTerms) {
		pages := ec2.NewDescribeSubnetsPaginator(n.clients.EC2, &ec2.DescribeSubnetsInput{Filters: query, MaxResults: aws.Int32(networkPage)})
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
				n.addresses.learn(id, int(free[id]))
				at := awsv1.Subnet{ID: id, Zone: aws.ToString(s.AvailabilityZone), ZoneID: aws.ToString(s.AvailabilityZoneId)}
				n.zones.learn(at.Zone, at.ZoneID)
				found = append(found, at)
			}
		}
	}
	slices.SortFunc(found, func(a, b awsv1.Subnet) int {
		return cmp.Or(cmp.Compare(free[b.ID], free[a.ID]), strings.Compare(a.ID, b.ID))
	})
	return found, nil
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

// resolveSecurityGroups puts the security groups of a class into its status.
func (n *network) resolveSecurityGroups(ctx context.Context, class *awsv1.EC2NodeClass) (finding, error) {
	found, err := n.groups.get(ctx, classKey(class), func(ctx context.Context) ([]awsv1.SecurityGroup, error) { return n.findSecurityGroups(ctx, class) })
	if err != nil {
		return finding{}, err
	}
	class.Status.SecurityGroups = found
	if len(found) == 0 {
		n.groups.drop(classKey(class))
		return finding{reason: "SecurityGroupsNotFound", message: "no security groups found: none matches spec.securityGroupSelectorTerms", again: missingAgain}, nil
	}
	return finding{again: n.opts.GroupRefresh}, nil
}

// findSecurityGroups returns the security groups of a class, by id.
func (n *network) findSecurityGroups(ctx context.Context, class *awsv1.EC2NodeClass) ([]awsv1.SecurityGroup, error) {
	names := map[string]string{}
	for _, query := range groupQueries(class.Spec.SecurityGroupSelectorTerms) {
		pages := ec2.NewDescribeSecurityGroupsPaginator(n.clients.EC2, &ec2.DescribeSecurityGroupsInput{Filters: query, MaxResults: aws.Int32(networkPage)})
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
