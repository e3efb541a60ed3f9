package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

const (
	// seenAfter is how long EC2 may take to show a new instance to everybody. Before that,
	// one that it does not show is taken to be there.
	seenAfter = 90 * time.Second
	// pageMost is how many things a page of a list has.
	pageMost = 1000
)

// Get returns one instance.
func (p *Provider) Get(ctx context.Context, id string) (cloud.Instance, error) {
	m, err := p.lookup(ctx, id)
	if err == nil && m.Going {
		err = cloud.ErrNotFound
	}
	if err != nil {
		return cloud.Instance{}, fmt.Errorf("get instance %s: %w", id, err)
	}
	return instanceOf(&m, p.typesFor(ctx, &m)), nil
}

// List returns every instance of this cluster. Those of a batch whose outcome is not known
// are left out: nobody can say yet whose they are.
func (p *Provider) List(ctx context.Context) ([]cloud.Instance, error) {
	if err := p.ledger.ready(ctx); err != nil {
		return nil, fmt.Errorf("list instances: %w", err)
	}
	p.ledger.settleAll(ctx)
	seen, err := p.describe(ctx,
		types.Filter{Name: aws.String("tag-key"), Values: []string{awsv1.TagNodePool}},
		types.Filter{Name: aws.String("tag-key"), Values: []string{awsv1.TagNodeClass}},
	)
	if err != nil {
		return nil, fmt.Errorf("list instances: %w", err)
	}
	p.remember(seen)
	p.mu.Lock()
	p.listed = p.opts.Now()
	p.mu.Unlock()
	for _, unseen := range []map[string]machine{p.recent(), p.held()} {
		for id, m := range unseen {
			if _, ok := seen[id]; !ok {
				seen[id] = m
			}
		}
	}
	out := make([]cloud.Instance, 0, len(seen))
	for _, id := range slices.Sorted(maps.Keys(seen)) {
		m := seen[id]
		if m.Ended || p.ledger.unsettled(&m) {
			continue
		}
		out = append(out, instanceOf(&m, p.typesFor(ctx, &m)))
	}
	return out, nil
}

// Terminate ends an instance.
func (p *Provider) Terminate(ctx context.Context, id string) error {
	m, err := p.lookup(ctx, id)
	if err != nil {
		return fmt.Errorf("terminate instance %s: %w", id, err)
	}
	if m.Going {
		return nil
	}
	if p.isAway(m.Zone) {
		return fmt.Errorf("terminate instance %s: %w", id, errAway(&m))
	}
	ended, _, err := p.ends.get(ctx, m.ID)
	if err = cmp.Or(err, ended.err); err != nil {
		p.opts.Meter.TerminationFailed(m.Zone, p.zoneID(m.Zone))
		return fmt.Errorf("terminate instance %s: %w", id, err)
	}
	if ended.known { // else it is too young to be known everywhere: it is asked for again
		p.mu.Lock()
		p.ended[m.ID] = p.opts.Now()
		p.mu.Unlock()
	}
	return nil
}

// lookup returns the machine with a providerID, on its way out or not.
func (p *Provider) lookup(ctx context.Context, id string) (machine, error) {
	name, ours := instanceID(id)
	if !ours {
		return machine{}, cloud.ErrNotFound
	}
	if err := p.ledger.ready(ctx); err != nil {
		return machine{}, err
	}
	if m, ok := p.held()[name]; ok && m.ProviderID() == id {
		return m, nil
	}
	m, ok, err := p.looks.get(ctx, name)
	if err != nil {
		return machine{}, err
	}
	if ok && p.ledger.unsettled(&m) {
		p.ledger.settleAll(ctx)
		if launched, known := p.ledger.machines()[name]; known {
			m.Claim, m.Token = launched.Claim, launched.Token
		}
	}
	if !ok {
		m, ok = p.recent()[name]
	}
	if !ok || m.Ended || m.ProviderID() != id {
		return machine{}, cloud.ErrNotFound
	}
	return m, nil
}

// find describes instances by the launches that they come from.
func (p *Provider) find(ctx context.Context, launches []string) (map[string][]machine, error) {
	seen, err := p.describe(ctx, types.Filter{Name: aws.String("tag:" + launchTag), Values: launches})
	found := map[string][]machine{}
	for _, m := range seen {
		found[m.Tags[launchTag]] = append(found[m.Tags[launchTag]], m)
	}
	return found, err
}

// look describes instances by their ids.
func (p *Provider) look(ctx context.Context, ids []string) (map[string]machine, error) {
	seen, err := p.describe(ctx, types.Filter{Name: aws.String("instance-id"), Values: ids})
	if err == nil {
		p.remember(seen)
	}
	return seen, err
}

// ending is what EC2 said when it was asked to end an instance.
type ending struct {
	known bool // it is on its way out
	err   error
}

// end ends instances. EC2 ends none, or not all, where it refuses one of them: then each half
// is asked for by itself, so that what is wrong with one is the answer for that one alone.
func (p *Provider) end(ctx context.Context, ids []string) (map[string]ending, error) {
	answers := map[string]ending{}
	_, err := p.clients.EC2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids})
	code := errorCode(err)
	var refused smithy.APIError
	aboutAll := !errors.As(err, &refused) || refused.ErrorFault() == smithy.FaultServer || isThrottling(code) || isOutage(code)
	switch {
	case err == nil:
		for _, id := range ids {
			answers[id] = ending{known: true}
		}
	case len(ids) == 1 && isNotFound(code):
	case len(ids) == 1 || aboutAll:
		for _, id := range ids {
			answers[id] = ending{err: err}
		}
	default:
		for _, half := range [][]string{ids[:len(ids)/2], ids[len(ids)/2:]} {
			its, _ := p.end(ctx, half) // it has its errors inside
			maps.Copy(answers, its)
		}
	}
	return answers, nil
}

// describe returns the cluster's instances that pass the filters, by id, with the claims
// that the ledger knows them by. Those that ended lately are among them, so that they can be
// told from those that EC2 does not show yet.
func (p *Provider) describe(ctx context.Context, filters ...types.Filter) (map[string]machine, error) {
	in := &ec2.DescribeInstancesInput{MaxResults: aws.Int32(pageMost), Filters: append(filters,
		types.Filter{Name: aws.String("tag:" + awsv1.TagEKSClusterName), Values: []string{p.opts.ClusterName}},
	)}
	known := p.ledger.machines()
	seen := map[string]machine{}
	pages := ec2.NewDescribeInstancesPaginator(p.clients.EC2, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("describe instances: %w", err)
		}
		for _, reservation := range page.Reservations {
			for i := range reservation.Instances {
				m := described(&reservation.Instances[i])
				if launched, ok := known[m.ID]; ok {
					m.Claim, m.Token = launched.Claim, launched.Token
				}
				seen[m.ID] = m
			}
		}
	}
	return seen, nil
}

// recent returns the machines that EC2 may not show yet, those that were ended marked.
func (p *Provider) recent() map[string]machine {
	all := p.ledger.machines()
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, m := range all {
		_, ended := p.ended[id]
		if ended || p.opts.Now().Sub(m.Created) > seenAfter {
			delete(all, id)
		}
	}
	return all
}

// remember keeps what EC2 last said of instances, for those who need no newer answer.
func (p *Provider) remember(seen map[string]machine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, m := range seen {
		p.known[id] = known{m, p.opts.Now()}
		if m.Going {
			p.ended[id] = p.opts.Now()
		}
	}
}

// tidy forgets what has not been seen for long.
func (p *Provider) tidy() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.opts.Now()
	away := p.shifts.away()
	maps.DeleteFunc(p.known, func(_ string, k known) bool {
		return now.Sub(k.at) > batchKept && !slices.Contains(away, p.zones[k.machine.Zone])
	})
	maps.DeleteFunc(p.tagged, func(id string, _ bool) bool {
		_, seen := p.known[id]
		return !seen
	})
	maps.DeleteFunc(p.ended, func(_ string, at time.Time) bool { return now.Sub(at) > batchKept })
}
