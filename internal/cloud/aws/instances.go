package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// listKept is for how long the list of our instances decides whether a notice is about one of
// them. It is shorter than the time for which instances are remembered.
const listKept = 10 * time.Minute

// instances reads, ends and remembers the cluster's instances.
type instances struct {
	opts    *Options
	clients *clients
	ledger  *ledger
	types   *instanceTypes
	shifts  *shifts
	zones   *zones
	// byID and byLaunch describe many instances with one request, terminations ends many.
	byID         gatherer[ec2Instance]
	byLaunch     gatherer[[]ec2Instance]
	terminations gatherer[termination]

	mu     sync.Mutex
	known  map[string]known     // by instance id; what EC2 said last
	ended  map[string]time.Time // by instance id
	tagged map[string]bool      // by instance id
	listed time.Time            // when known had all instances that EC2 showed
}

type known struct {
	instance ec2Instance
	at       time.Time
}

func newInstances(opts *Options, clients *clients, l *ledger, t *instanceTypes, z *zones) *instances {
	i := &instances{
		opts: opts, clients: clients, ledger: l, types: t, shifts: t.shifts, zones: z,
		known: map[string]known{}, ended: map[string]time.Time{}, tagged: map[string]bool{},
	}
	gathered := func(what string) func(time.Duration, int) {
		return func(waited time.Duration, size int) { opts.Meter.Gathered(what, waited, size) }
	}
	i.byID = gatherer[ec2Instance]{ask: i.describeByID, now: opts.Now, gathered: gathered("describe_instances")}
	i.byLaunch = gatherer[[]ec2Instance]{ask: i.describeByLaunch, now: opts.Now, gathered: gathered("describe_instances")}
	i.terminations = gatherer[termination]{ask: i.terminateAll, now: opts.Now, gathered: gathered("terminate_instances")}
	return i
}

// get returns one instance.
func (i *instances) get(ctx context.Context, id string) (cloud.Instance, error) {
	m, err := i.lookup(ctx, id)
	if err == nil && m.Going {
		err = cloud.ErrNotFound
	}
	if err != nil {
		return cloud.Instance{}, fmt.Errorf("get instance %s: %w", id, err)
	}
	return instanceOf(&m, i.types.ofInstance(ctx, &m)), nil
}

// list returns every instance of this cluster. Those of a batch whose outcome is not known
// are left out: nobody can say yet whose they are.
func (i *instances) list(ctx context.Context) ([]cloud.Instance, error) {
	if err := i.ledger.ready(ctx); err != nil {
		return nil, fmt.Errorf("list instances: %w", err)
	}
	i.ledger.resolveAll(ctx)
	seen, err := i.describe(ctx,
		types.Filter{Name: aws.String("tag-key"), Values: []string{awsv1.TagNodePool}},
		types.Filter{Name: aws.String("tag-key"), Values: []string{awsv1.TagNodeClass}},
	)
	if err != nil {
		return nil, fmt.Errorf("list instances: %w", err)
	}
	i.remember(seen)
	i.mu.Lock()
	i.listed = i.opts.Now()
	i.mu.Unlock()
	for _, unseen := range []map[string]ec2Instance{i.recent(), i.inShiftedZones()} {
		for id, m := range unseen {
			if _, ok := seen[id]; !ok {
				seen[id] = m
			}
		}
	}
	out := make([]cloud.Instance, 0, len(seen))
	for _, id := range slices.Sorted(maps.Keys(seen)) {
		m := seen[id]
		if m.Ended || i.ledger.unresolved(&m) {
			continue
		}
		out = append(out, instanceOf(&m, i.types.ofInstance(ctx, &m)))
	}
	return out, nil
}

// terminate ends an instance.
func (i *instances) terminate(ctx context.Context, id string) error {
	m, err := i.lookup(ctx, id)
	if err != nil {
		return fmt.Errorf("terminate instance %s: %w", id, err)
	}
	if m.Going {
		return nil
	}
	if i.shifts.isAway(m.Zone) {
		return fmt.Errorf("terminate instance %s: %w", id, errAway(&m))
	}
	ended, _, err := i.terminations.get(ctx, m.ID)
	if err = cmp.Or(err, ended.err); err != nil {
		i.opts.Meter.TerminationFailed(m.Zone, i.zones.id(m.Zone))
		return fmt.Errorf("terminate instance %s: %w", id, err)
	}
	if ended.known { // else it is too young to be known everywhere: it is asked for again
		i.mu.Lock()
		i.ended[m.ID] = i.opts.Now()
		i.mu.Unlock()
	}
	return nil
}

// lookup returns the instance with a providerID, on its way out or not.
func (i *instances) lookup(ctx context.Context, id string) (ec2Instance, error) {
	name, ours := instanceID(id)
	if !ours {
		return ec2Instance{}, cloud.ErrNotFound
	}
	if err := i.ledger.ready(ctx); err != nil {
		return ec2Instance{}, err
	}
	if m, ok := i.inShiftedZones()[name]; ok && m.ProviderID() == id {
		return m, nil
	}
	m, ok, err := i.byID.get(ctx, name)
	if err != nil {
		return ec2Instance{}, err
	}
	if ok && i.ledger.unresolved(&m) {
		i.ledger.resolveAll(ctx)
		if launched, known := i.ledger.instances()[name]; known {
			m.Claim, m.Token = launched.Claim, launched.Token
		}
	}
	if !ok {
		m, ok = i.recent()[name]
	}
	if !ok || m.Ended || m.ProviderID() != id {
		return ec2Instance{}, cloud.ErrNotFound
	}
	return m, nil
}

// remembered returns what EC2 last said of an instance, after asking if it never did.
func (i *instances) remembered(ctx context.Context, id string) (ec2Instance, error) {
	name, ours := instanceID(id)
	if !ours {
		return ec2Instance{}, cloud.ErrNotFound
	}
	if m, ok := i.seen(name); ok && !m.Going {
		return m, nil
	}
	return i.lookup(ctx, id)
}

// seen returns what EC2 said last of an instance, by its EC2 id; false: it was not asked.
func (i *instances) seen(id string) (ec2Instance, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	k, ok := i.known[id]
	return k.instance, ok
}

// noticed returns the instance with an EC2 id, if it is ours.
func (i *instances) noticed(ctx context.Context, id string) (ec2Instance, error) {
	i.mu.Lock()
	k, ok := i.known[id]
	listed := i.listed
	i.mu.Unlock()
	if ok {
		return k.instance, nil
	}
	if m, ok := i.ledger.instances()[id]; ok {
		return m, nil
	}
	// Most notices are about instances of others. EC2 is not asked about an instance that is not
	// in the list of ours, which is read every few minutes, unless that list is too old.
	if _, valid := instanceID("aws:///zone/" + id); !valid || i.opts.Now().Sub(listed) < listKept {
		return ec2Instance{}, cloud.ErrNotFound
	}
	m, ok, err := i.byID.get(ctx, id)
	if err == nil && !ok {
		err = cloud.ErrNotFound
	}
	return m, err
}

// describeByLaunch describes instances by the launches that they come from.
func (i *instances) describeByLaunch(ctx context.Context, launches []string) (map[string][]ec2Instance, error) {
	seen, err := i.describe(ctx, types.Filter{Name: aws.String("tag:" + launchTag), Values: launches})
	found := map[string][]ec2Instance{}
	for _, m := range seen {
		found[m.Tags[launchTag]] = append(found[m.Tags[launchTag]], m)
	}
	return found, err
}

// describeByID describes instances by their ids.
func (i *instances) describeByID(ctx context.Context, ids []string) (map[string]ec2Instance, error) {
	seen, err := i.describe(ctx, types.Filter{Name: aws.String("instance-id"), Values: ids})
	if err == nil {
		i.remember(seen)
	}
	return seen, err
}

// termination is what EC2 said when it was asked to end an instance.
type termination struct {
	known bool // it is on its way out
	err   error
}

// terminateAll ends instances. If EC2 refuses one of them it may end none of the others. So after
// a refusal terminateAll asks for each half by itself, until the refusal is about one instance.
func (i *instances) terminateAll(ctx context.Context, ids []string) (map[string]termination, error) {
	answers := map[string]termination{}
	_, err := i.clients.EC2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids})
	code := errorCode(err)
	var refused smithy.APIError
	aboutAll := !errors.As(err, &refused) || refused.ErrorFault() == smithy.FaultServer || isThrottling(code) || isOutage(code)
	switch {
	case err == nil:
		for _, id := range ids {
			answers[id] = termination{known: true}
		}
	case len(ids) == 1 && isNotFound(code):
	case len(ids) == 1 || aboutAll:
		for _, id := range ids {
			answers[id] = termination{err: err}
		}
	default:
		for _, half := range [][]string{ids[:len(ids)/2], ids[len(ids)/2:]} {
			its, _ := i.terminateAll(ctx, half) // it has its errors inside
			maps.Copy(answers, its)
		}
	}
	return answers, nil
}

// describe returns the cluster's instances that pass the filters, by id, with the claims
// that the ledger knows them by. Those that ended lately are among them, so that they can be
// distinguished from those that EC2 does not show yet.
func (i *instances) describe(ctx context.Context, filters ...types.Filter) (map[string]ec2Instance, error) {
	in := &ec2.DescribeInstancesInput{MaxResults: aws.Int32(pageMost), Filters: append(filters,
		types.Filter{Name: aws.String("tag:" + awsv1.TagEKSClusterName), Values: []string{i.opts.ClusterName}},
	)}
	known := i.ledger.instances()
	seen := map[string]ec2Instance{}
	pages := ec2.NewDescribeInstancesPaginator(i.clients.EC2, in)
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

// recent returns the instances that EC2 may not show yet, those that were ended marked.
func (i *instances) recent() map[string]ec2Instance {
	all := i.ledger.instances()
	i.mu.Lock()
	defer i.mu.Unlock()
	for id, m := range all {
		_, ended := i.ended[id]
		if ended || i.opts.Now().Sub(m.Created) > seenAfter {
			delete(all, id)
		}
	}
	return all
}

// inShiftedZones returns the instances in zones that are shifted away from, as EC2 last described
// them: while a zone is in trouble, an answer without them does not prove that they are gone.
func (i *instances) inShiftedZones() map[string]ec2Instance {
	out := map[string]ec2Instance{}
	if len(i.shifts.away()) == 0 {
		return out
	}
	i.mu.Lock()
	known := maps.Clone(i.known)
	i.mu.Unlock()
	for id, k := range known {
		if !k.instance.Going && i.shifts.isAway(k.instance.Zone) {
			out[id] = k.instance
		}
	}
	return out
}

// inReservations returns the instances in some reservations, as EC2 said last.
func (i *instances) inReservations(reservations map[string]time.Time) []ec2Instance {
	i.mu.Lock()
	defer i.mu.Unlock()
	var in []ec2Instance
	for _, k := range i.known {
		if _, ok := reservations[k.instance.Reservation]; ok && !k.instance.Going {
			in = append(in, k.instance)
		}
	}
	return in
}

// remember keeps what EC2 said of instances, for callers that need no newer answer.
func (i *instances) remember(seen map[string]ec2Instance) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for id, m := range seen {
		if was := i.known[id].instance; m.Ended && was.Reservation != "" {
			i.types.reservations.giveBack(was.Reservation, id)
		}
		i.known[id] = known{m, i.opts.Now()}
		if m.Going {
			i.ended[id] = i.opts.Now()
		}
	}
}

// forgetOld forgets what has not been seen for long.
func (i *instances) forgetOld() {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.opts.Now()
	away := i.shifts.away()
	maps.DeleteFunc(i.known, func(_ string, k known) bool {
		return now.Sub(k.at) > batchKept && !slices.Contains(away, i.zones.id(k.instance.Zone))
	})
	maps.DeleteFunc(i.tagged, func(id string, _ bool) bool {
		_, seen := i.known[id]
		return !seen
	})
	maps.DeleteFunc(i.ended, func(_ string, at time.Time) bool { return now.Sub(at) > batchKept })
}

// tagNew gives each instance that was launched lately its own tags: its claim, which
// those that were launched together lack, and its name.
func (i *instances) tagNew(ctx context.Context) error {
	launched := i.ledger.instances()
	i.mu.Lock()
	maps.DeleteFunc(launched, func(id string, _ ec2Instance) bool {
		_, ended := i.ended[id]
		return ended || i.tagged[id]
	})
	i.mu.Unlock()
	ids := slices.Sorted(maps.Keys(launched))
	for some := range slices.Chunk(ids, gatherMost) {
		seen, err := i.describeByID(ctx, some)
		if err != nil {
			return err
		}
		for _, id := range some {
			m, ok := seen[id]
			if !ok || m.Going || i.shifts.isAway(m.Zone) { // not shown yet, or not sure: the next time
				continue
			}
			if err := i.tag(ctx, &m); err != nil {
				return err
			}
		}
	}
	return nil
}

func (i *instances) tag(ctx context.Context, m *ec2Instance) error {
	tags := map[string]string{awsv1.TagNodeClaim: m.Claim}
	if m.Tags[awsv1.TagName] == "" && m.DNSName != "" {
		tags[awsv1.TagName] = m.DNSName
	}
	_, err := i.clients.EC2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{m.ID}, Tags: tagList(tags)})
	if err != nil && !isNotFound(errorCode(err)) {
		return fmt.Errorf("tag instance %s: %w", m.ID, err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.tagged[m.ID] = err == nil
	return nil
}

// ofLaunch returns the instances that EC2 shows of a launch.
func (i *instances) ofLaunch(ctx context.Context, launch string) ([]ec2Instance, error) {
	found, _, err := i.byLaunch.get(ctx, launch)
	return found, err
}
