package aws

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/class"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/family"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instance"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

const (
	// triedKept is how long the outcome of a dry run is not asked for again.
	triedKept = 30 * time.Minute
	// tryAgain is the pause after a dry run that said nothing; it doubles with each that says
	// nothing again, up to tryAgainMost.
	tryAgain     = 5 * time.Second
	tryAgainMost = 5 * time.Minute
	// subnetsTried is in how many subnets one dry run asks for an instance.
	subnetsTried = 6
	// dryRunOK is the code of the error that says that a dry run would have worked.
	dryRunOK = "DryRunOperation"
)

// Reasons that dry runs give for ValidationSucceeded.
const (
	reasonTemplateDenied  = "CreateLaunchTemplateAuthCheckFailed"
	reasonFleetDenied     = "CreateFleetAuthCheckFailed"
	reasonInstancesDenied = "RunInstancesAuthCheckFailed"
	reasonUserDataSize    = "UserDataSizeLimitExceeded"
	reasonProfileMissing  = "InstanceProfileNotFound"
)

// hash returns what a class's machines are compared by.
func (p *Provider) hash(c *awsv1.EC2NodeClass) string { return class.Hash(c, p.opts.ClusterCABundle) }

// validate judges whether nodes of a class can be launched: by what is known, and then by
// trying it out without launching any. An error says that it could not be found out.
func (p *Provider) validate(ctx context.Context, c *awsv1.EC2NodeClass) (finding, error) {
	facts, err := p.factsOf(ctx, c)
	if err != nil {
		return finding{}, err
	}
	if v := class.Validate(c, facts); v.Reason != "" {
		f := finding{reason: v.Reason, message: v.Message, unknown: v.Unknown, again: validationAgain}
		if v.Settled {
			f.again = 0
		}
		return f, nil
	}
	if p.opts.DisableDryRun {
		return finding{again: validationAgain}, nil
	}
	key, err := triedKey(c)
	if err != nil {
		return finding{}, err
	}
	return p.tryOut(ctx, c, key), nil
}

// factsOf returns what the validation of a class needs to know beside it.
func (p *Provider) factsOf(ctx context.Context, c *awsv1.EC2NodeClass) (*class.Facts, error) {
	facts := &class.Facts{Expressions: p.opts.KubeletExpressions}
	if family.Of(&c.Spec).Name == family.AL2023 {
		cluster, err := p.cluster(ctx)
		if err != nil && isInconclusive(err) && !errors.Is(err, errNoServiceRange) {
			return nil, err
		}
		facts.CIDR, facts.CIDRError = cluster.cidr, err
	}
	if _, err := kubelet.Parse(c.Spec.Kubelet); err != nil {
		return facts, nil //nolint:nilerr // the verdict says what is wrong with it
	}
	m, err := p.stall.get(ctx)
	if err != nil {
		return nil, err
	}
	config, err := p.classOf(ctx, c)
	if err != nil {
		return nil, err
	}
	for i := range m.infos {
		facts.Machines = append(facts.Machines, instance.Machine(&m.infos[i], p.region(m), config))
	}
	return facts, nil
}

// isInconclusive reports whether an error says nothing about what was asked: AWS was not
// reached, was too busy, failed by itself, or did not let us in.
func isInconclusive(err error) bool {
	code := errorCode(err)
	var api smithy.APIError
	return code == "Unknown" || isThrottling(code) || isOutage(code) || errors.As(err, &api) && api.ErrorFault() == smithy.FaultServer
}

// trial is what dry runs have said of a class so far. One goroutine at a time uses it: the
// reconciler works on a class once at a time.
type trial struct {
	// key is that of the class as it was tried out.
	key string
	// outcome is the last conclusive one, which is good until fresh and kept after that until
	// there is another; nil: there was none.
	outcome *finding
	fresh   time.Time
	// failures is how many dry runs in a row were inconclusive; why is what the last one
	// said, and next is when the next one is due.
	failures int
	why      string
	next     time.Time
}

// trials has those of the classes that exist.
type trials struct {
	mu      sync.Mutex
	byClass map[string]*trial
}

// of returns the trial of a class: a new one if the class is not as it was.
func (t *trials) of(class, key string) *trial {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byClass == nil {
		t.byClass = map[string]*trial{}
	}
	if had := t.byClass[class]; had != nil && had.key == key {
		return had
	}
	t.byClass[class] = &trial{key: key}
	return t.byClass[class]
}

// drop forgets a class.
func (t *trials) drop(class string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byClass, class)
}

// tryOut returns what a dry run says of a class, or said of it if that is fresh. After an
// inconclusive one it is what was known before, and the next one waits.
func (p *Provider) tryOut(ctx context.Context, c *awsv1.EC2NodeClass, key string) finding {
	t := p.tried.of(c.Name, key)
	now := p.opts.Now()
	if t.outcome != nil && now.Before(t.fresh) {
		return *t.outcome
	}
	if !now.Before(t.next) {
		f, err := p.try(ctx, c)
		if err == nil {
			*t = trial{key: key, outcome: &f, fresh: now.Add(keptOf(&f))}
			return f
		}
		pause := min(tryAgain<<min(t.failures, 10), tryAgainMost)
		t.failures, t.why, t.next = t.failures+1, err.Error(), p.opts.Now().Add(pause)
		p.opts.Log.Warn("a dry run of a node class was inconclusive, will try again", "class", c.Name, "in_a_row", t.failures, "again", pause, "error", err)
	}
	again := max(time.Second, t.next.Sub(p.opts.Now()))
	if t.outcome == nil {
		return finding{inconclusive: true, message: t.why, again: again}
	}
	f := *t.outcome
	f.again = again
	return f
}

// keptOf returns for how long the outcome of a dry run is not asked for again: that a
// profile is missing is soon over once somebody has made it.
func keptOf(f *finding) time.Duration {
	if f.reason == reasonProfileMissing {
		return f.again
	}
	return triedKept
}

// triedKey is the same while a dry run would have the same outcome. Annotations are part
// of it, so that a person can ask for another.
func triedKey(c *awsv1.EC2NodeClass) (string, error) {
	h := sha256.New()
	if err := json.NewEncoder(h).Encode([]any{c.UID, c.Name, c.Spec, c.Annotations, statusUsed(&c.Status)}); err != nil {
		return "", fmt.Errorf("node class %s: %w", c.Name, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// try makes the launch template of some node of the class and asks EC2 whether it would
// launch it. An error is an inconclusive outcome.
func (p *Provider) try(ctx context.Context, c *awsv1.EC2NodeClass) (finding, error) {
	s, err := p.sample(ctx, c)
	if err != nil {
		return finding{}, err
	}
	d, err := p.draft(ctx, s)
	var failure *cloud.Failure
	switch {
	case errors.As(err, &failure) && failure.Reason == "Unauthorized":
		return finding{reason: reasonTemplateDenied, message: failure.Message, again: validationAgain}, nil
	case errors.As(err, &failure) && failure.Reason == reasonUserDataSize:
		return finding{reason: failure.Reason, message: failure.Message, again: validationAgain}, nil
	case err != nil:
		return finding{}, err
	}
	o := d.order()
	if code, message := p.tryFleet(ctx, &o); code != dryRunOK {
		return p.dryRunFailed(c, reasonFleetDenied, code, message)
	}
	if code, message := p.tryInstance(ctx, c, d); code != dryRunOK {
		return p.dryRunFailed(c, reasonInstancesDenied, code, message)
	}
	return finding{again: validationAgain}, nil
}

// dryRunFailed says what a code of a dry run means.
func (p *Provider) dryRunFailed(c *awsv1.EC2NodeClass, unauthorized, code, message string) (finding, error) {
	profileMissing := strings.Contains(message, "Invalid IAM Instance Profile name")
	switch {
	case reasonOf(code, message) == "Unauthorized":
		return finding{reason: unauthorized, message: "not allowed, as a dry run says: " + message, again: validationAgain}, nil
	case profileMissing && c.Spec.InstanceProfile != nil:
		return finding{reason: reasonProfileMissing, message: fmt.Sprintf("instance profile %s does not exist: %s", *c.Spec.InstanceProfile, message), again: missingAgain}, nil
	case profileMissing: // IAM takes a while to tell EC2
		return finding{}, fmt.Errorf("EC2 does not know instance profile %s yet", c.Status.InstanceProfile)
	default:
		return finding{}, fmt.Errorf("dry run: %s: %s", code, message)
	}
}

// sample returns a request for the cheapest machine of a class, rather one without
// accelerators, whose images are large.
func (p *Provider) sample(ctx context.Context, c *awsv1.EC2NodeClass) (*shot, error) {
	m, err := p.stall.get(ctx)
	if err != nil {
		return nil, err
	}
	config, err := p.classOf(ctx, c)
	if err != nil {
		return nil, err
	}
	types := instance.Types(m.infos, p.region(m), config)
	types = slices.DeleteFunc(types, func(t *catalog.Type) bool { return imageOf(c, t) == "" })
	want := label.Requirements{label.CapacityType: label.In(label.OnDemand)}
	plain := want.With(awsv1.LabelInstanceGPUCount, label.DoesNotExist()).With(awsv1.LabelInstanceAcceleratorCount, label.DoesNotExist())
	offers := catalog.Offers(types, plain, nil)
	if len(offers) == 0 {
		offers = catalog.Offers(types, want, nil)
	}
	if len(offers) == 0 {
		return nil, errors.New("no type on demand is sold in a zone of the class's subnets, for which it has an image")
	}
	return newShot(c, &cloud.LaunchRequest{Offers: offers[:1]})
}

// dry marks a request to be tried out, once.
func dry(o *ec2.Options) { o.Retryer = aws.NopRetryer{} }

func (p *Provider) tryFleet(ctx context.Context, o *order) (code, message string) {
	o.Input.DryRun = aws.Bool(true)
	o.Input.TargetCapacitySpecification.TotalTargetCapacity = aws.Int32(1)
	_, err := p.clients.EC2.CreateFleet(ctx, o.Input, dry)
	return errorCode(err), fmt.Sprint(err)
}

// tryInstance asks for one instance in one subnet after the other, those of the offer's
// zone first, until one would do. The first subnet speaks for all if none would.
func (p *Provider) tryInstance(ctx context.Context, c *awsv1.EC2NodeClass, d *draft) (code, message string) {
	var specs []types.TagSpecification
	for _, kind := range []types.ResourceType{types.ResourceTypeInstance, types.ResourceTypeVolume, types.ResourceTypeNetworkInterface} {
		specs = append(specs, types.TagSpecification{ResourceType: kind, Tags: tagList(d.tags)})
	}
	offer := d.offers[0]
	in := func(zone string) int {
		if zone == offer.Offering.Zone {
			return 0
		}
		return 1
	}
	subnets := slices.SortedStableFunc(slices.Values(c.Status.Subnets), func(a, b awsv1.Subnet) int { return in(a.Zone) - in(b.Zone) })
	for i, subnet := range subnets[:min(len(subnets), subnetsTried)] {
		_, err := p.clients.EC2.RunInstances(ctx, &ec2.RunInstancesInput{
			DryRun: aws.Bool(true), MinCount: aws.Int32(1), MaxCount: aws.Int32(1), InstanceType: types.InstanceType(offer.Type.Name),
			LaunchTemplate:    &types.LaunchTemplateSpecification{LaunchTemplateName: aws.String(offer.template), Version: aws.String("$Latest")},
			NetworkInterfaces: interfacesIn(c, subnet.ID), TagSpecifications: specs,
		}, dry)
		if i == 0 || errorCode(err) == dryRunOK {
			code, message = errorCode(err), fmt.Sprint(err)
		}
		if code == dryRunOK || isInconclusive(err) {
			break
		}
	}
	return code, message
}

// interfacesIn returns the network interfaces of a class, all of them in one subnet:
// whether EC2 merges them into those of the launch template or takes them in their place,
// each has a subnet.
func interfacesIn(c *awsv1.EC2NodeClass, subnet string) []types.InstanceNetworkInterfaceSpecification {
	if len(c.Spec.NetworkInterfaces) == 0 {
		return []types.InstanceNetworkInterfaceSpecification{{DeviceIndex: aws.Int32(0), SubnetId: &subnet}}
	}
	var out []types.InstanceNetworkInterfaceSpecification
	for _, i := range c.Spec.NetworkInterfaces {
		out = append(out, types.InstanceNetworkInterfaceSpecification{
			NetworkCardIndex: aws.Int32(i.NetworkCardIndex), DeviceIndex: aws.Int32(i.DeviceIndex), InterfaceType: aws.String(i.InterfaceType), SubnetId: &subnet,
		})
	}
	return out
}
