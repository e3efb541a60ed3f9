package aws

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

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

// instanceTypes works out the instance types of a class: what EC2 sells, as a node of it.
type instanceTypes struct {
	client          client.Client
	opts            *Options
	market          *marketSource
	memory          *nodeMemory
	reservations    *reservations
	placementGroups *placementGroups
	shifts          *shifts
	lists           cache[[]*catalog.Type]
	devices         deviceTables
	// resolveCopy fills in the status of a class that has none; nil: somebody keeps it.
	resolveCopy func(ctx context.Context, class *awsv1.EC2NodeClass) error
}

// of returns every type that the class can launch.
func (t *instanceTypes) of(ctx context.Context, ref cloud.ClassRef) ([]*catalog.Type, error) {
	class, err := getClass(ctx, t.client, ref)
	if err != nil {
		return nil, err
	}
	if t.resolveCopy != nil && (len(class.Status.AMIs) == 0 || len(class.Status.Subnets) == 0) {
		if err := t.resolveCopy(ctx, class); err != nil {
			return nil, err
		}
	}
	m, err := t.market.get(ctx)
	if err != nil {
		return nil, err
	}
	config, err := t.config(ctx, class)
	if err != nil {
		return nil, err
	}
	t.devices.update(t.opts, class, m)
	region := t.region(m)
	key, err := typesKey(class, config, m, region.Away)
	if err != nil {
		return nil, err
	}
	return t.lists.get(ctx, key, func(context.Context) ([]*catalog.Type, error) {
		if err := instance.CheckMaxPods(m.infos, region, config); err != nil {
			return nil, fmt.Errorf("node class %s: %w", class.Name, err)
		}
		all := instance.Types(m.infos, region, config)
		return slices.DeleteFunc(all, func(t *catalog.Type) bool { // EC2 does not say what it has
			free := t.Allocatable()
			return free[quantity.CPU] <= 0 || free[quantity.Memory] <= 0 || free[quantity.Pods] <= 0
		}), nil
	})
}

// ofInstance returns the types of an instance's class; none if they are not known.
func (t *instanceTypes) ofInstance(ctx context.Context, m *ec2Instance) []*catalog.Type {
	return t.ofLaunched(ctx, m, cloud.ClassRef{Group: awsv1.Group, Kind: classKind, Name: m.Tags[awsv1.TagNodeClass]})
}

// ofLaunched returns the types of the class that an instance is launched with; none if they are not known.
func (t *instanceTypes) ofLaunched(ctx context.Context, m *ec2Instance, class cloud.ClassRef) []*catalog.Type {
	types, err := t.of(ctx, class)
	if err != nil {
		t.opts.Log.Debug("the type of an instance is not known", "instance", m.ID, "error", err)
		return nil
	}
	return types
}

// region is what decides types besides their class.
func (t *instanceTypes) region(m *market) *instance.Region {
	return &instance.Region{
		Name: t.opts.Config.Region, Offered: m.offered, OnDemand: m.onDemand, Spot: m.spot,
		Away: t.shifts.away(), MemoryOverhead: t.opts.VMMemoryOverheadPercent, ReservedENIs: t.opts.ReservedENIs,
	}
}

// config is what of a class decides its types.
func (t *instanceTypes) config(ctx context.Context, class *awsv1.EC2NodeClass) (*instance.Class, error) {
	config, err := kubelet.Parse(class.Spec.Kubelet)
	if err != nil {
		return nil, fmt.Errorf("node class %s: %w", class.Name, err)
	}
	if !t.opts.KubeletExpressions {
		config = config.WithoutExpressions()
	}
	t.memory.ready(ctx)
	c := &instance.Class{Spec: &class.Spec, Status: &class.Status, Kubelet: config, Left: map[string]int{}, Memory: t.memory.of(class, t.opts.Now())}
	for _, r := range class.Status.CapacityReservations {
		c.Left[r.ID] = t.reservations.of(r.ID)
	}
	group, err := t.placementGroups.find(ctx, class)
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
