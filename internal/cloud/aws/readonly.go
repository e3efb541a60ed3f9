package aws

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

// reads are how the names of requests begin that change nothing. A dry run has the name of what it tries: if its
// flag were lost, an instance would be launched.
var reads = []string{"Describe", "Get", "List"} //nolint:gochecknoglobals // a constant

// readOnly returns a configuration whose clients send nothing but reads. Credentials are read by other clients.
func readOnly(c aws.Config) aws.Config {
	c = c.Copy()
	c.APIOptions = append(slices.Clone(c.APIOptions), func(s *middleware.Stack) error {
		return s.Initialize.Add(middleware.InitializeMiddlewareFunc("ReadOnly", refuseWrites), middleware.After)
	})
	return c
}

func refuseWrites(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
	name := awsmiddleware.GetOperationName(ctx)
	if !slices.ContainsFunc(reads, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
		return middleware.InitializeOutput{}, middleware.Metadata{}, fmt.Errorf("%s %s was not sent: this controller only observes (--mode=observe)", awsmiddleware.GetServiceID(ctx), name)
	}
	return next.HandleInitialize(ctx, in)
}

// resolveCopy finds what a class asks for, where nobody keeps its status. The status is that of the copy in hand.
func (c *classReconciler) resolveCopy(ctx context.Context, class *awsv1.EC2NodeClass) error {
	finds := []func(context.Context, *awsv1.EC2NodeClass) (finding, error){c.images.resolve, c.network.resolveSubnets, c.network.resolveSecurityGroups}
	if c.opts.Reservations {
		finds = append(finds, c.reservations.resolve)
	}
	for _, find := range finds {
		f, err := find(ctx, class)
		if err != nil {
			return fmt.Errorf("node class %s: %w", class.Name, err)
		}
		if f.reason != "" && !f.inconclusive {
			return fmt.Errorf("node class %s: %s: %s", class.Name, f.reason, f.message)
		}
	}
	return nil
}
