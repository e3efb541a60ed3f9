package aws

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// blockReader reports the instances in capacity blocks that are near their end.
type blockReader struct {
	client    client.Client
	opts      *Options
	instances *instances
	report    reporter
}

// watch reports the instances in capacity blocks that are near their end.
func (b *blockReader) watch(ctx context.Context) {
	for ctx.Err() == nil {
		if err := b.read(ctx); err != nil && ctx.Err() == nil {
			b.opts.Log.Error("instances of capacity blocks that end could not be reported, will try again", "error", err)
		}
		pause(ctx, reservationsAgain)
	}
}

func (b *blockReader) read(ctx context.Context) error {
	var classes awsv1.EC2NodeClassList
	if err := b.client.List(ctx, &classes); err != nil {
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
	for _, m := range b.instances.inReservations(ends) {
		errs = append(errs, b.report(ctx, cloud.Notice{Kind: cloud.ReservationEnding, InstanceID: m.ProviderID(), Ends: ends[m.Reservation]}))
	}
	return errors.Join(errs...)
}
