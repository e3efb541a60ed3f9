package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/smithy-go/middleware"
)

// requestPatience is how long one attempt of a request may take.
const requestPatience = time.Minute

// clients are those of the services of AWS.
type clients struct {
	EC2     *ec2.Client
	SSM     *ssm.Client
	IAM     *iam.Client
	EKS     *eks.Client
	Pricing *pricing.Client
	SQS     *sqs.Client
	// ZonalShift is Amazon Application Recovery Controller.
	ZonalShift *arczonalshift.Client
}

// connect returns the clients, all of which keep to the rate limits.
func connect(c aws.Config, limits *limiter) clients {
	reach := c.Copy()
	reach.APIOptions = append(slices.Clone(reach.APIOptions), func(s *middleware.Stack) error { return limits.install(s) })
	reach.Retryer = steady
	return clients{
		EC2: ec2.NewFromConfig(reach), SSM: ssm.NewFromConfig(reach), IAM: iam.NewFromConfig(reach),
		EKS: eks.NewFromConfig(reach), Pricing: pricing.NewFromConfig(reach, priceList), SQS: sqs.NewFromConfig(reach),
		ZonalShift: arczonalshift.NewFromConfig(reach),
	}
}

// steady returns how requests other than CreateFleet are repeated: little, because the limiter
// makes them wait instead.
func steady() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) { o.MaxAttempts = 4 })
}

// priceList directs requests for the price list to a region that serves it, of which there are
// few, and to its ordinary endpoint: it has no other, and its answers are public.
func priceList(o *pricing.Options) {
	o.Region = pricesFrom(o.Region)
	o.EndpointOptions.UseFIPSEndpoint = aws.FIPSEndpointStateDisabled
}

// pricesFrom returns the region whose price list covers another.
func pricesFrom(region string) string {
	switch part, _, _ := strings.Cut(region, "-"); part {
	case "ap":
		return "ap-south-1"
	case "cn":
		return "cn-northwest-1"
	case "eu":
		return "eu-central-1"
	default:
		return "us-east-1"
	}
}

// Account is an account that is reached by itself, whatever the environment says of others:
// a simulated one.
type Account struct {
	// URL is where all its services answer.
	URL, Region                        string
	AccessKey, SecretKey, SessionToken string
}

// Config returns how the account is reached, and nothing else.
func (a *Account) Config() aws.Config {
	return aws.Config{
		Region: a.Region, BaseEndpoint: &a.URL, HTTPClient: awshttp.NewBuildableClient().WithTimeout(requestPatience),
		Credentials: credentials.NewStaticCredentialsProvider(a.AccessKey, a.SecretKey, a.SessionToken),
	}
}

// LoadConfig returns how AWS is reached, as the environment says: AWS_REGION or, failing
// that, the metadata of the instance; credentials by any of the SDK's ways.
func LoadConfig(ctx context.Context) (aws.Config, error) {
	loaded, err := config.LoadDefaultConfig(ctx, config.WithEC2IMDSRegion(), config.WithHTTPClient(
		awshttp.NewBuildableClient().WithTimeout(requestPatience)))
	if err != nil {
		return aws.Config{}, fmt.Errorf("read AWS configuration: %w", err)
	}
	if loaded.Region == "" {
		return aws.Config{}, errors.New("read AWS configuration: no region; set AWS_REGION")
	}
	return loaded, nil
}
