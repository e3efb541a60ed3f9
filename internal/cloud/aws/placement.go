package aws

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

const placementGroupKept = time.Minute

// placementGroups finds the placement groups of classes.
type placementGroups struct {
	clients *clients
	found   cache[*types.PlacementGroup] // by id and name; nil for those that do not exist
}

// resolve finds out whether the placement group of a class exists.
func (g *placementGroups) resolve(ctx context.Context, class *awsv1.EC2NodeClass) (finding, error) {
	if class.Spec.PlacementGroupSelector == nil {
		return finding{}, nil
	}
	group, err := g.find(ctx, class)
	switch {
	case err != nil && isInconclusive(err):
		return finding{}, err
	case err != nil:
		return finding{reason: "PlacementGroupResolutionFailed", message: err.Error(), again: missingAgain}, nil //nolint:nilerr // the condition says so
	case group == nil:
		return finding{reason: "PlacementGroupNotFound", message: "no placement group matches spec.placementGroupSelector", again: missingAgain}, nil
	}
	return finding{again: placementAgain}, nil
}

// find returns the placement group of a class; nil: it asks for none, or
// there is none of that name or id.
func (g *placementGroups) find(ctx context.Context, class *awsv1.EC2NodeClass) (*types.PlacementGroup, error) {
	selector := class.Spec.PlacementGroupSelector
	if selector == nil {
		return nil, nil
	}
	return g.found.get(ctx, selector.ID+"/"+selector.Name, func(ctx context.Context) (*types.PlacementGroup, error) {
		in := &ec2.DescribePlacementGroupsInput{Filters: []types.Filter{filter("state", "available")}}
		if selector.ID != "" {
			in.GroupIds = []string{selector.ID}
		} else {
			in.GroupNames = []string{selector.Name}
		}
		out, err := g.clients.EC2.DescribePlacementGroups(ctx, in)
		if isNotFound(errorCode(err)) || (err == nil && len(out.PlacementGroups) == 0) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("describe placement groups: %w", err)
		}
		return &out.PlacementGroups[0], nil
	})
}
