package aws

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// Reboot restarts an instance. EC2 has no token for that: whatever is asked twice restarts twice. Who
// asks again compares the boot ID of the Node with that of before the first request, and does not ask
// if it is another one.
func (p *Provider) Reboot(ctx context.Context, request cloud.RebootRequest) error {
	return p.instances.reboot(ctx, request.InstanceID)
}

// reboot restarts an instance, unless its zone is shifted away from.
func (i *instances) reboot(ctx context.Context, id string) error {
	m, err := i.lookup(ctx, id)
	switch {
	case err != nil:
	case m.Going:
		err = cloud.ErrNotFound
	case i.shifts.isAway(m.Zone):
		err = errAway(&m)
	default:
		_, err = i.clients.EC2.RebootInstances(ctx, &ec2.RebootInstancesInput{InstanceIds: []string{m.ID}})
		err = i.rebootError(&m, err)
	}
	if err != nil {
		return fmt.Errorf("reboot instance %s: %w", id, err)
	}
	return nil
}

// rebootError returns what an answer of EC2 means. It may not know an instance yet that is new.
func (i *instances) rebootError(m *ec2Instance, err error) error {
	code := errorCode(err)
	switch {
	case isNotFound(code) && i.opts.Now().Sub(m.Created) > seenAfter:
		return cloud.ErrNotFound
	case slices.Contains([]string{"UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "UnsupportedOperation"}, code):
		return fmt.Errorf("%w: %w", cloud.ErrRebootRefused, err)
	default:
		return err
	}
}
