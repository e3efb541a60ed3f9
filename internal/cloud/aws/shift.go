package aws

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// shiftsEvery is how often the zonal shifts are read.
const shiftsEvery = 30 * time.Second

// shifts are the zones that somebody moved the cluster's traffic away from. Nothing is launched
// or terminated there: what EC2 says of such a zone may be wrong.
type shifts struct {
	opts    *Options
	clients *clients
	cluster *clusterInfo
	zones   *zones

	mu    sync.Mutex
	until map[string]time.Time // by the zone's id
}

// away returns the ids of the zones that are shifted away from, in order.
func (s *shifts) away() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, id := range slices.Sorted(maps.Keys(s.until)) {
		if s.opts.Now().Before(s.until[id]) {
			out = append(out, id)
		}
	}
	return out
}

// has reports whether a zone is shifted away from, by its id.
func (s *shifts) has(id string) bool { return slices.Contains(s.away(), id) }

// isAway reports whether a zone is shifted away from, by its name.
func (s *shifts) isAway(zone string) bool { return s.has(s.zones.id(zone)) }

// here returns the subnets in zones that are not shifted away from.
func (s *shifts) here(of []awsv1.Subnet) []awsv1.Subnet {
	away := s.away()
	if len(away) == 0 {
		return of
	}
	return slices.DeleteFunc(slices.Clone(of), func(s awsv1.Subnet) bool { return slices.Contains(away, s.ZoneID) })
}

// learn notes for how long which zones are shifted away from.
func (s *shifts) learn(until map[string]time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = until
}

// watch reports when zones are shifted away from, and when they are back.
func (s *shifts) watch(ctx context.Context, report func(context.Context, cloud.Notice) error) {
	reported := map[string]bool{}
	for ctx.Err() == nil {
		if err := s.read(ctx, reported, report); err != nil && ctx.Err() == nil {
			s.opts.Log.Error("zonal shifts could not be read, will try again", "error", err)
		}
		pause(ctx, shiftsEvery)
	}
}

// read reads the zonal shifts of the cluster and reports what has changed since.
func (s *shifts) read(ctx context.Context, reported map[string]bool, report func(context.Context, cloud.Notice) error) error {
	facts, err := s.cluster.describe(ctx)
	if err != nil {
		return err
	}
	out, err := s.clients.ZonalShift.GetManagedResource(ctx, &arczonalshift.GetManagedResourceInput{ResourceIdentifier: &facts.arn})
	if err != nil {
		return fmt.Errorf("get zonal shifts of %s: %w", facts.arn, err)
	}
	until := map[string]time.Time{}
	for _, shift := range out.ZonalShifts {
		id := aws.ToString(shift.AwayFrom)
		if ends := aws.ToTime(shift.ExpiryTime); shift.AppliedStatus == types.AppliedStatusApplied && ends.After(until[id]) {
			until[id] = ends
		}
	}
	s.learn(until)
	away := s.away()
	var errs []error
	for _, id := range away {
		if !reported[id] {
			err := report(ctx, cloud.Notice{Kind: cloud.ZoneShifted, Zone: s.zones.name(id), Ends: until[id]})
			reported[id] = err == nil
			errs = append(errs, err)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(reported)) {
		if slices.Contains(away, id) {
			continue
		}
		err := report(ctx, cloud.Notice{Kind: cloud.ZoneRestored, Zone: s.zones.name(id)})
		if err == nil {
			delete(reported, id)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// errAway says that an instance is left as it is while its zone is shifted away from.
func errAway(m *ec2Instance) error {
	return fmt.Errorf("zone %s is shifted away from; what is there is left as it is until the shift is over", m.Zone)
}
