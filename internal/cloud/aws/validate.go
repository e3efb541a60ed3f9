package aws

import (
	"context"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
)

// validate judges whether machines of a class can be launched.
func (p *Provider) validate(ctx context.Context, class *awsv1.EC2NodeClass) (finding, error) {
	set := condition.ForEC2NodeClass(class, p.opts.Reservations)
	dependencies := []string{awsv1.ConditionTypeAMIsReady, awsv1.ConditionTypeInstanceProfileReady, awsv1.ConditionTypeSecurityGroupsReady, awsv1.ConditionTypeSubnetsReady}
	for _, d := range dependencies {
		if set.Get(d).Status == "False" {
			return finding{reason: "DependenciesNotReady", message: "waiting for " + d, again: validationAgain}, nil
		}
	}
	if !set.IsTrue(dependencies...) {
		return finding{reason: "DependenciesNotReady", message: "what the class asks for is still being looked up", unknown: true, again: validationAgain}, nil
	}
	return finding{again: validationAgain}, nil
}

func (p *Provider) hash(class *awsv1.EC2NodeClass) string { return "x" }
