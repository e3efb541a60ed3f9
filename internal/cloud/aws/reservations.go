package aws

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

const (
	// blockEnds is how long before its end a capacity block takes no more instances: EC2
	// takes them back from 30 minutes before it.
	blockEnds = 40 * time.Minute
	// blockTakenBack is how long before a block's end EC2 begins to take its instances back.
	blockTakenBack = 30 * time.Minute
	// reservationsMost bounds the memory; with more, all are learnt anew.
	reservationsMost = 5_000
	// givenBackKept is for how long an instance is remembered that is no longer in its
	// reservation.
	givenBackKept = 15 * time.Minute
)

// reservations finds the capacity reservations of classes, and counts what is left of them:
// what EC2 said last, less what was launched since.
type reservations struct {
	opts    *Options
	clients *clients

	mu   sync.Mutex
	left map[string]int // by reservation id
	// givenBack is when an instance ended and its reservation had one more left, by instance id.
	givenBack map[string]time.Time
}

// resolve puts the capacity reservations of a class into its status.
func (r *reservations) resolve(ctx context.Context, class *awsv1.EC2NodeClass) (finding, error) {
	found, err := r.find(ctx, class)
	if err != nil {
		return finding{}, err
	}
	class.Status.CapacityReservations = found
	if len(class.Spec.CapacityReservationSelectorTerms) == 0 {
		return finding{}, nil
	}
	return finding{again: reservationsAgain}, nil
}

// find returns the capacity reservations of a class, by id.
func (r *reservations) find(ctx context.Context, class *awsv1.EC2NodeClass) ([]awsv1.CapacityReservation, error) {
	var found []awsv1.CapacityReservation
	for _, query := range reservationQueries(class.Spec.CapacityReservationSelectorTerms) {
		pages := ec2.NewDescribeCapacityReservationsPaginator(r.clients.EC2, query)
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if isNotFound(errorCode(err)) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("describe capacity reservations: %w", err)
			}
			for i := range page.CapacityReservations {
				described := &page.CapacityReservations[i]
				if reservation, usable := reservationOf(described, r.opts.Now()); usable {
					found = append(found, reservation)
					r.learn(reservation.ID, int(aws.ToInt32(described.AvailableInstanceCount)))
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b awsv1.CapacityReservation) int { return strings.Compare(a.ID, b.ID) })
	return slices.CompactFunc(found, func(a, b awsv1.CapacityReservation) bool { return a.ID == b.ID }), nil
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

// learn notes how many more instances a reservation covers.
func (r *reservations) learn(id string, left int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left == nil || len(r.left) >= reservationsMost {
		r.left = map[string]int{}
	}
	r.left[id] = left
}

// take notes that a reservation has one instance more; empty: it is none.
func (r *reservations) take(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if left, known := r.left[id]; known {
		r.left[id] = max(0, left-1)
	}
}

// giveBack notes, once, that an instance is no longer in its reservation.
func (r *reservations) giveBack(id, instance string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.opts.Now()
	maps.DeleteFunc(r.givenBack, func(_ string, at time.Time) bool { return now.Sub(at) > givenBackKept })
	if _, done := r.givenBack[instance]; done {
		return
	}
	if r.givenBack == nil {
		r.givenBack = map[string]time.Time{}
	}
	r.givenBack[instance] = now
	if left, known := r.left[id]; known {
		r.left[id] = left + 1
	}
}

// of returns how many more instances a reservation covers.
func (r *reservations) of(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left[id]
}
