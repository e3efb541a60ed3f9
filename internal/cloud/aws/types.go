package aws

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instance"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

const (
	// typesKept is how long the types of a class hold if nothing changes that decides them.
	typesKept = 5 * time.Minute
	// listsMost bounds the lists of types that are remembered, which are long.
	listsMost = 64
)

// Types returns every type that the class can launch.
func (p *Provider) Types(ctx context.Context, ref cloud.ClassRef) ([]*catalog.Type, error) {
	class, err := p.class(ctx, ref)
	if err != nil {
		return nil, err
	}
	m, err := p.stall.get(ctx)
	if err != nil {
		return nil, err
	}
	config, err := p.classOf(ctx, class)
	if err != nil {
		return nil, err
	}
	region := p.region(m)
	key, err := typesKey(class, config, m, region.Away)
	if err != nil {
		return nil, err
	}
	return p.types.get(ctx, key, func(context.Context) ([]*catalog.Type, error) {
		all := instance.Types(m.infos, region, config)
		return slices.DeleteFunc(all, func(t *catalog.Type) bool { // EC2 does not say what it has
			free := t.Allocatable()
			return free[quantity.CPU] <= 0 || free[quantity.Memory] <= 0 || free[quantity.Pods] <= 0
		}), nil
	})
}

// region is what decides types besides their class.
func (p *Provider) region(m *market) *instance.Region {
	return &instance.Region{
		Name: p.opts.Config.Region, Offered: m.offered, OnDemand: m.onDemand, Spot: m.spot,
		Away: p.shifts.away(), MemoryOverhead: p.opts.VMMemoryOverheadPercent, ReservedENIs: p.opts.ReservedENIs,
	}
}

// classOf is what of a class decides its types.
func (p *Provider) classOf(ctx context.Context, class *awsv1.EC2NodeClass) (*instance.Class, error) {
	config, err := kubelet.Parse(class.Spec.Kubelet)
	if err != nil {
		return nil, fmt.Errorf("node class %s: %w", class.Name, err)
	}
	p.memoryReady(ctx)
	c := &instance.Class{Spec: &class.Spec, Status: &class.Status, Kubelet: config, Left: map[string]int{}, Memory: p.memory.of(class, p.opts.Now())}
	for _, r := range class.Status.CapacityReservations {
		c.Left[r.ID] = p.reserved.of(r.ID)
	}
	group, err := p.findPlacementGroup(ctx, class)
	if err != nil {
		return nil, err
	}
	if group != nil {
		c.Group = &instance.Group{ID: *group.GroupId, Strategy: group.Strategy}
		if group.PartitionCount != nil {
			c.Group.Partitions = int(*group.PartitionCount)
		}
	}
	return c, nil
}

// typesKey is the same while the types of a class are.
func typesKey(class *awsv1.EC2NodeClass, c *instance.Class, m *market, away []string) (string, error) {
	h := sha256.New()
	err := json.NewEncoder(h).Encode([]any{class.UID, class.Name, class.Spec, statusUsed(&class.Status), c.Left, c.Group, c.Memory, m.number, away})
	if err != nil {
		return "", fmt.Errorf("node class %s: %w", class.Name, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
