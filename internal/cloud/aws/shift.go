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

// shiftsEvery is how often it is asked which zones are shifted away from.
const shiftsEvery = 30 * time.Second

// shifts are the zones that somebody moved the cluster's traffic away from: nothing is
// launched there, and what is there is left as it is, for EC2's word on it may be wrong.
type shifts struct {
	now func() time.Time

	mu    sync.Mutex
	until map[string]time.Time // by the zone's id
}

// away returns the ids of the zones that are shifted away from, in order.
func (s *shifts) away() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, id := range slices.Sorted(maps.Keys(s.until)) {
		if s.now().Before(s.until[id]) {
			out = append(out, id)
		}
	}
	return out
}

// has tells whether a zone is shifted away from, by its id.
func (s *shifts) has(id string) bool { return slices.Contains(s.away(), id) }

// learn notes for how long which zones are shifted away from.
func (s *shifts) learn(until map[string]time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = until
}

// isAway tells whether a zone is shifted away from, by its name.
func (p *Provider) isAway(zone string) bool { return p.shifts.has(p.zoneID(zone)) }

// watchShifts tells when zones are shifted away from, and when they are back.
func (p *Provider) watchShifts(ctx context.Context, tell func(context.Context, cloud.Notice) error) {
	told := map[string]bool{}
	for ctx.Err() == nil {
		if err := p.readShifts(ctx, told, tell); err != nil && ctx.Err() == nil {
			p.opts.Log.Error("zonal shifts could not be read, will try again", "error", err)
		}
		pause(ctx, shiftsEvery)
	}
}

// readShifts reads the zonal shifts of the cluster and tells what has changed since.
func (p *Provider) readShifts(ctx context.Context, told map[string]bool, tell func(context.Context, cloud.Notice) error) error {
	facts, err := p.cluster(ctx)
	if err != nil {
		return err
	}
	out, err := p.clients.ZonalShift.GetManagedResource(ctx, &arczonalshift.GetManagedResourceInput{ResourceIdentifier: &facts.arn})
	if err != nil {
		return fmt.Errorf("get zonal shifts of %s: %w", facts.arn, err)
	}
	until := map[string]time.Time{}
	for _, s := range out.ZonalShifts {
		id := aws.ToString(s.AwayFrom)
		if ends := aws.ToTime(s.ExpiryTime); s.AppliedStatus == types.AppliedStatusApplied && ends.After(until[id]) {
			until[id] = ends
		}
	}
	p.shifts.learn(until)
	away := p.shifts.away()
	var errs []error
	for _, id := range away {
		if !told[id] {
			err := tell(ctx, cloud.Notice{Kind: cloud.ZoneShifted, Zone: p.zoneName(id), Ends: until[id]})
			told[id] = err == nil
			errs = append(errs, err)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(told)) {
		if slices.Contains(away, id) {
			continue
		}
		err := tell(ctx, cloud.Notice{Kind: cloud.ZoneRestored, Zone: p.zoneName(id)})
		if err == nil {
			delete(told, id)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// zoneName returns the name of a zone, or its id where no class has a subnet in it.
func (p *Provider) zoneName(id string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, of := range p.zones {
		if of == id {
			return name
		}
	}
	return id
}

// here returns the subnets in zones that are not shifted away from.
func (p *Provider) here(of []awsv1.Subnet) []awsv1.Subnet {
	away := p.shifts.away()
	if len(away) == 0 {
		return of
	}
	return slices.DeleteFunc(slices.Clone(of), func(s awsv1.Subnet) bool { return slices.Contains(away, s.ZoneID) })
}

// held returns the machines in zones that are shifted away from, as EC2 described them
// before: a zone in trouble is no proof that they are gone.
func (p *Provider) held() map[string]machine {
	out := map[string]machine{}
	if len(p.shifts.away()) == 0 {
		return out
	}
	p.mu.Lock()
	known := maps.Clone(p.known)
	p.mu.Unlock()
	for id, k := range known {
		if !k.machine.Going && p.isAway(k.machine.Zone) {
			out[id] = k.machine
		}
	}
	return out
}

// errAway says that a machine is left as it is while its zone is shifted away from.
func errAway(m *machine) error {
	return fmt.Errorf("zone %s is shifted away from; what is there is left as it is until the shift is over", m.Zone)
}
