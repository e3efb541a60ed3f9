// Package checkup looks at an AWS account before the controller works in it: whether there
// is everything that it needs, and whether it would be allowed to use it. Nothing is changed:
// what would change something is tried as a dry run.
//
// Read checkup.go (which checks there are), then account.go (what must be there) and
// permission.go (what must be allowed). probe.go is what the checks share, finding.go what they return.
package checkup

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// patience is how long one check may take.
const patience = 30 * time.Second

// Check looks at the account. Without credentials nothing else is asked.
func Check(ctx context.Context, o Options) []Finding {
	l := &probe{
		o: &o, ec2: ec2.NewFromConfig(o.Config), eks: eks.NewFromConfig(o.Config), iam: iam.NewFromConfig(o.Config),
		sqs: sqs.NewFromConfig(o.Config), ssm: ssm.NewFromConfig(o.Config), sts: sts.NewFromConfig(o.Config),
		pricing: pricing.NewFromConfig(o.Config),
	}
	var found []Finding
	for _, check := range []func(context.Context) []Finding{
		l.credentials, l.cluster, l.subnets, l.groups, l.images, l.nodeRole, l.spotRole, l.queue, l.permissions, l.launch, l.reboot,
	} {
		ctx, cancel := context.WithTimeout(ctx, patience)
		found = append(found, check(ctx)...)
		cancel()
		if found[0].Status == Failed {
			return append(found, Finding{Check: "account", Status: Skipped, Found: "not looked at without credentials"})
		}
	}
	return found
}
