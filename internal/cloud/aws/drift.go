package aws

import (
	"context"
	"fmt"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/class"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instance"
)

// Drifted compares an instance, as EC2 last described it, with what its class would launch
// now. While images, subnets or security groups of the class are not known, nothing has drifted.
func (p *Provider) Drifted(ctx context.Context, ref cloud.ClassRef, id string) (string, error) {
	c, err := getClass(ctx, p.client, ref.Object()) // the hash of the pool has its kubelet
	if err != nil {
		return "", err
	}
	m, err := p.instances.remembered(ctx, id)
	if err != nil {
		return "", fmt.Errorf("ask whether instance %s drifted: %w", id, err)
	}
	resolved := len(c.Status.AMIs) > 0 && len(c.Status.Subnets) > 0 && len(c.Status.SecurityGroups) > 0
	if c.DeletionTimestamp != nil || !resolved || len(m.SecurityGroups) == 0 {
		return "", nil
	}
	sold, err := p.market.get(ctx)
	if err != nil {
		return "", err
	}
	config, err := p.types.config(ctx, c)
	if err != nil {
		return "", nil //nolint:nilerr // the class's status says so
	}
	now := &class.Now{Hash: p.opts.hash(c)}
	if info := sold.info(m.Type); info != nil {
		now.ImageID = imageOf(c, instance.Type(info, p.types.region(sold), config))
	}
	if config.Group != nil {
		now.PlacementGroup = config.Group.ID
	}
	return class.Drift(c, &class.Instance{
		Hash: m.Tags[awsv1.AnnotationHash], HashVersion: m.Tags[awsv1.AnnotationHashVersion],
		ImageID: m.ImageID, SubnetID: m.SubnetID, SecurityGroups: m.SecurityGroups, Reservation: m.Reservation, PlacementGroup: m.PlacementGroup,
	}, now), nil
}
