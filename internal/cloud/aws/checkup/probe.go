package checkup

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// Options say what to look for.
type Options struct {
	// Config is how AWS is reached.
	Config aws.Config
	// Cluster is the name of the EKS cluster, and the value of the tag karpenter.sh/discovery.
	Cluster string
	// Queue is the name of the interruption queue; empty: there is none.
	Queue string
	// NodeRole is the name of the role that instances get.
	NodeRole string
	// Reboots: nodes are rebooted for repair, so that is tried, too.
	Reboots bool
	Now     func() time.Time
}

// probe is one check-up of an account, and what earlier checks found out for later ones.
type probe struct {
	o       *Options
	ec2     *ec2.Client
	eks     *eks.Client
	iam     *iam.Client
	pricing *pricing.Client
	sqs     *sqs.Client
	ssm     *ssm.Client
	sts     *sts.Client

	version, subnet, image string
}
