package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

const (
	// blockEnds is how long before its end a capacity block takes no more machines: EC2
	// takes them back from 30 minutes before it.
	blockEnds = 40 * time.Minute
	// blockTakenBack is how long before a block's end EC2 begins to take its machines back.
	blockTakenBack = 30 * time.Minute
	// reservationsMost bounds the memory; with more, all are learnt anew.
	reservationsMost = 5_000
)

// reserved keeps account of what is left of capacity reservations: what EC2 said last,
// less what was launched since.
type reserved struct {
	mu   sync.Mutex
	left map[string]int // by reservation id
}

func (r *reserved) learn(id string, left int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left == nil || len(r.left) >= reservationsMost {
		r.left = map[string]int{}
	}
	r.left[id] = left
}

// take notes that a reservation has one machine more; empty: it is none.
func (r *reserved) take(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if left, known := r.left[id]; known {
		r.left[id] = max(0, left-1)
	}
}

// of returns how many more machines a reservation covers.
func (r *reserved) of(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left[id]
}

// reservationQueries returns the requests that terms come down to.
func reservationQueries(terms []awsv1.CapacityReservationSelectorTerm) []*ec2.DescribeCapacityReservationsInput {
	active := filter("state", string(types.CapacityReservationStateActive))
	var out []*ec2.DescribeCapacityReservationsInput
	for _, t := range terms {
		if t.ID != "" {
			out = append(out, &ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{t.ID}, Filters: []types.Filter{active}})
			continue
		}
		filters := append([]types.Filter{active}, tagFilters(t.Tags)...)
		if t.OwnerID != "" {
			filters = append(filters, filter("owner-id", t.OwnerID))
		}
		if t.InstanceMatchCriteria != "" {
			filters = append(filters, filter("instance-match-criteria", t.InstanceMatchCriteria))
		}
		out = append(out, &ec2.DescribeCapacityReservationsInput{Filters: filters, MaxResults: aws.Int32(pageMost)})
	}
	return out
}

// findReservations returns the capacity reservations of a class, by id.
func (p *Provider) findReservations(ctx context.Context, class *awsv1.EC2NodeClass) ([]awsv1.CapacityReservation, error) {
	var found []awsv1.CapacityReservation
	for _, query := range reservationQueries(class.Spec.CapacityReservationSelectorTerms) {
		pages := ec2.NewDescribeCapacityReservationsPaginator(p.clients.EC2, query)
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if isNotFound(errorCode(err)) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("describe capacity reservations: %w", err)
			}
			for i := range page.CapacityReservations {
				r := &page.CapacityReservations[i]
				if told, usable := reservationOf(r, p.opts.Now()); usable {
					found = append(found, told)
					p.reserved.learn(told.ID, int(aws.ToInt32(r.AvailableInstanceCount)))
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b awsv1.CapacityReservation) int { return strings.Compare(a.ID, b.ID) })
	return slices.CompactFunc(found, func(a, b awsv1.CapacityReservation) bool { return a.ID == b.ID }), nil
}

// reservationOf returns what a class's status says of a reservation; false: it is over, or
// of a kind that nobody can use.
func reservationOf(r *types.CapacityReservation, now time.Time) (awsv1.CapacityReservation, bool) {
	out := awsv1.CapacityReservation{
		AvailabilityZone: aws.ToString(r.AvailabilityZone), ID: aws.ToString(r.CapacityReservationId),
		InstanceMatchCriteria: string(r.InstanceMatchCriteria), InstanceType: aws.ToString(r.InstanceType),
		OwnerID: aws.ToString(r.OwnerId), Interruptible: aws.ToBool(r.Interruptible),
		ReservationType: cmp.Or(string(r.ReservationType), awsv1.CapacityReservationTypeDefault), State: awsv1.CapacityReservationStateActive,
	}
	if r.EndDate != nil {
		end := metav1.NewTime(*r.EndDate)
		out.EndTime = &end
		if !now.Before(end.Time) {
			return out, false
		}
		if out.ReservationType == awsv1.CapacityReservationTypeCapacityBlock && !now.Before(end.Add(-blockEnds)) {
			out.State = awsv1.CapacityReservationStateExpiring
		}
	}
	known := out.ReservationType == awsv1.CapacityReservationTypeDefault || out.ReservationType == awsv1.CapacityReservationTypeCapacityBlock
	criteria := r.InstanceMatchCriteria == types.InstanceMatchCriteriaOpen || r.InstanceMatchCriteria == types.InstanceMatchCriteriaTargeted
	return out, known && criteria
}

// watchBlocks tells of the machines in capacity blocks that are near their end.
func (p *Provider) watchBlocks(ctx context.Context, tell func(context.Context, cloud.Notice) error) {
	for ctx.Err() == nil {
		if err := p.readBlocks(ctx, tell); err != nil && ctx.Err() == nil {
			p.opts.Log.Error("machines of capacity blocks that end could not be told of, will try again", "error", err)
		}
		pause(ctx, reservationsAgain)
	}
}

func (p *Provider) readBlocks(ctx context.Context, tell func(context.Context, cloud.Notice) error) error {
	var classes awsv1.EC2NodeClassList
	if err := p.client.List(ctx, &classes); err != nil {
		return fmt.Errorf("list node classes: %w", err)
	}
	ends := map[string]time.Time{} // by reservation
	for i := range classes.Items {
		for _, r := range classes.Items[i].Status.CapacityReservations {
			if r.State == awsv1.CapacityReservationStateExpiring && r.EndTime != nil {
				ends[r.ID] = r.EndTime.Add(-blockTakenBack)
			}
		}
	}
	var errs []error
	for _, m := range p.machinesIn(ends) {
		errs = append(errs, tell(ctx, cloud.Notice{Kind: cloud.ReservationEnding, InstanceID: m.ProviderID(), Ends: ends[m.Reservation]}))
	}
	return errors.Join(errs...)
}

// machinesIn returns the machines in some reservations, as EC2 said last.
func (p *Provider) machinesIn(reservations map[string]time.Time) []machine {
	p.mu.Lock()
	defer p.mu.Unlock()
	var in []machine
	for _, k := range p.known {
		if _, ok := reservations[k.machine.Reservation]; ok && !k.machine.Going {
			in = append(in, k.machine)
		}
	}
	return in
}

// findPlacementGroup returns the placement group of a class; nil: it asks for none, or
// there is none of that name or id.
func (p *Provider) findPlacementGroup(ctx context.Context, class *awsv1.EC2NodeClass) (*types.PlacementGroup, error) {
	selector := class.Spec.PlacementGroupSelector
	if selector == nil {
		return nil, nil
	}
	return p.placementGroups.get(ctx, selector.ID+"/"+selector.Name, func(ctx context.Context) (*types.PlacementGroup, error) {
		in := &ec2.DescribePlacementGroupsInput{Filters: []types.Filter{filter("state", "available")}}
		if selector.ID != "" {
			in.GroupIds = []string{selector.ID}
		} else {
			in.GroupNames = []string{selector.Name}
		}
		out, err := p.clients.EC2.DescribePlacementGroups(ctx, in)
		if isNotFound(errorCode(err)) || (err == nil && len(out.PlacementGroups) == 0) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("describe placement groups: %w", err)
		}
		return &out.PlacementGroups[0], nil
	})
}
