package groupreader

import (
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
)

// groupsMax bounds how many groups are read; EKS allows 100 for a cluster unless it is asked for more.
const groupsMax = 1000

type reader struct {
	eks           *eks.Client
	ec2           *ec2.Client
	scaling       *autoscaling.Client
	cluster       string
	securityGroup string // the cluster's own
}
