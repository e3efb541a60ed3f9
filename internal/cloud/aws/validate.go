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
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/class"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/family"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instance"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

const (
	// triedKept is how long the outcome of a dry run holds.
	triedKept = 30 * time.Minute
	// tryAgain is when a dry run is repeated that said nothing.
	tryAgain = 5 * time.Second
	// dryRunOK is the code of the error that says that a dry run would have worked.
	dryRunOK = "DryRunOperation"
)

// hash returns what a class's machines are compared by.
func (p *Provider) hash(c *awsv1.EC2NodeClass) string { return class.Hash(c, p.opts.ClusterCABundle) }

// validate judges whether machines of a class can be launched: by what is known, and then
// by trying it out without launching any.
func (p *Provider) validate(ctx context.Context, c *awsv1.EC2NodeClass) (finding, error) {
	m, err := p.stall.get(ctx)
	if err != nil {
		return finding{}, err
	}
	facts := &class.Facts{Expressions: p.opts.KubeletExpressions}
	if family.Of(&c.Spec).Name == family.AL2023 {
		cluster, err := p.cluster(ctx)
		facts.CIDR, facts.CIDRError = cluster.cidr, err
	}
	if config, err := p.classOf(ctx, c); err == nil { // else the verdict says what is wrong
		for i := range m.infos {
			facts.Machines = append(facts.Machines, instance.Machine(&m.infos[i], p.region(m), config))
		}
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
	f, err := p.tried.get(ctx, key, func(ctx context.Context) (finding, error) { return p.try(ctx, c) })
	var later *notYet
	if errors.As(err, &later) {
		return finding{reason: class.ReasonDependencies, message: later.Error(), unknown: true, again: tryAgain}, nil
	}
	return f, err
}

// notYet is why a dry run says nothing so far; it is not remembered.
type notYet struct{ error }

// triedKey is the same while a dry run would have the same outcome. Annotations are part
// of it, so that a person can ask for another.
func triedKey(c *awsv1.EC2NodeClass) (string, error) {
	h := sha256.New()
	if err := json.NewEncoder(h).Encode([]any{c.UID, c.Name, c.Spec, c.Annotations, statusUsed(&c.Status)}); err != nil {
		return "", fmt.Errorf("node class %s: %w", c.Name, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// try makes the launch template of some machine of the class and asks EC2 whether it would
// launch it.
func (p *Provider) try(ctx context.Context, c *awsv1.EC2NodeClass) (finding, error) {
	s, err := p.sample(ctx, c)
	if err != nil {
		return finding{}, err
	}
	d, err := p.draft(ctx, s)
	var failure *cloud.Failure
	switch {
	case errors.As(err, &failure) && failure.Reason == "Unauthorized":
		return finding{reason: "CreateLaunchTemplateAuthCheckFailed", message: failure.Message, again: validationAgain}, nil
	case errors.As(err, &failure) && failure.Kind == cloud.NoCapacity:
		return finding{}, &notYet{failure}
	case errors.As(err, &failure):
		return finding{reason: failure.Reason, message: failure.Message, again: validationAgain}, nil
	case err != nil:
		return finding{}, &notYet{err}
	}
	o := d.order()
	if code, message := p.tryFleet(ctx, &o); code != dryRunOK {
		return p.dryRunFailed(c, "CreateFleetAuthCheckFailed", code, message)
	}
	if code, message := p.tryInstance(ctx, c, d); code != dryRunOK {
		return p.dryRunFailed(c, "RunInstancesAuthCheckFailed", code, message)
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
		return finding{}, &notYet{fmt.Errorf("instance profile %s does not exist: %s", *c.Spec.InstanceProfile, message)}
	case profileMissing: // IAM takes a while to tell EC2
		return finding{}, &notYet{fmt.Errorf("EC2 does not know instance profile %s yet", c.Status.InstanceProfile)}
	default:
		return finding{}, &notYet{fmt.Errorf("dry run: %s: %s", code, message)}
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
		return nil, &notYet{errors.New("no type on demand is sold in a zone of the class's subnets, for which it has an image")}
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

// tryInstance asks for one instance in each subnet until one would do. The first subnet
// speaks for all if none would.
func (p *Provider) tryInstance(ctx context.Context, c *awsv1.EC2NodeClass, d *draft) (code, message string) {
	var specs []types.TagSpecification
	for _, kind := range []types.ResourceType{types.ResourceTypeInstance, types.ResourceTypeVolume, types.ResourceTypeNetworkInterface} {
		specs = append(specs, types.TagSpecification{ResourceType: kind, Tags: tagList(d.tags)})
	}
	for i, subnet := range c.Status.Subnets {
		_, err := p.clients.EC2.RunInstances(ctx, &ec2.RunInstancesInput{
			DryRun: aws.Bool(true), MinCount: aws.Int32(1), MaxCount: aws.Int32(1), InstanceType: types.InstanceType(d.offers[0].Type.Name),
			LaunchTemplate:    &types.LaunchTemplateSpecification{LaunchTemplateName: aws.String(d.offers[0].template), Version: aws.String("$Latest")},
			NetworkInterfaces: []types.InstanceNetworkInterfaceSpecification{{DeviceIndex: aws.Int32(0), SubnetId: aws.String(subnet.ID)}},
			TagSpecifications: specs,
		}, dry)
		if i == 0 || errorCode(err) == dryRunOK {
			code, message = errorCode(err), fmt.Sprint(err)
		}
		if code == dryRunOK {
			break
		}
	}
	return code, message
}
