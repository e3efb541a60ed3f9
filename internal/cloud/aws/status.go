package aws

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// statusEvery is how often EC2 is asked which instances fail its checks.
const statusEvery = time.Minute

// statusReader reads EC2's status checks.
type statusReader struct {
	opts    *Options
	clients *clients
	notify  *notifier
	unwell  map[sighting]bool // what EC2 said at the last reading
}

// sighting is something bad that EC2 says of an instance.
type sighting struct {
	instance string
	kind     cloud.NoticeKind
}

// watch asks EC2 for instances that fail its checks or have maintenance ahead.
func (s *statusReader) watch(ctx context.Context) {
	for ctx.Err() == nil {
		err := s.read(ctx)
		switch {
		case ctx.Err() != nil:
		case reasonOf(errorCode(err), "") == "Unauthorized":
			s.opts.Log.Error("status checks of instances are not watched: not allowed", "error", err)
			return
		case err != nil:
			s.opts.Log.Error("status checks of instances could not be read, will try again", "error", err)
		}
		pause(ctx, statusEvery)
	}
}

// read reports what EC2 says of instances, and counts what it did not say at the last reading.
func (s *statusReader) read(ctx context.Context) error {
	reported := map[string]bool{}
	seen := map[sighting]bool{}
	var errs []error
	for _, query := range []types.Filter{
		filter("instance-status.status", "impaired"), filter("system-status.status", "impaired"),
		filter("event.code", "instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop"),
	} {
		pages := ec2.NewDescribeInstanceStatusPaginator(s.clients.EC2, &ec2.DescribeInstanceStatusInput{Filters: []types.Filter{query}})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return fmt.Errorf("describe instance status: %w", err)
			}
			for i := range page.InstanceStatuses {
				n, bad := noticeOf(&page.InstanceStatuses[i], s.opts.Now())
				if !bad || reported[n.InstanceID] {
					continue
				}
				reported[n.InstanceID] = true
				ours, err := s.notify.forward(ctx, n)
				errs = append(errs, err) // one is no reason not to report the others
				at := sighting{n.InstanceID, n.Kind}
				if seen[at] = ours; ours && !s.unwell[at] {
					s.opts.Meter.Unhealthy(categoryOf(n.Kind))
				}
			}
		}
	}
	s.unwell = seen
	return errors.Join(errs...)
}
