package operator

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"time"
)

// AWSSettings are those that only the provider aws reads.
type AWSSettings struct {
	ClusterName             string
	ClusterEndpoint         string
	ClusterCABundle         string
	IsolatedVPC             bool
	EKSControlPlane         bool
	VMMemoryOverheadPercent float64
	InterruptionQueue       string
	ReplaceOnRebalance      bool
	ReservedENIs            int
	DisableDryRun           bool
	EnableZonalShift        bool
	AWSFeatureGates         string
	AMIRefreshInterval      time.Duration
	SubnetRefreshInterval   time.Duration
	GroupRefreshInterval    time.Duration
}

// refreshLeast is how often images, subnets and security groups may be looked up at most.
const refreshLeast = time.Minute

const awsFeatureGatesDefault = "NodeClassCEL=false,DRANVIDIAGPU=false,DRAEFA=false,RebootForRepair=false"

func (s *AWSSettings) addAWSFlags(a adder) {
	a.text(&s.ClusterName, "cluster-name", "", "aws: name of the EKS cluster; all resources that are created in AWS are tagged with it")
	a.text(&s.ClusterEndpoint, "cluster-endpoint", "", "aws: URL of the API server that nodes join; empty: ask EKS")
	a.text(&s.ClusterCABundle, "cluster-ca-bundle", "", "aws: CA certificate of that API server, PEM in base64; empty: the one that this process trusts")
	a.flag(&s.IsolatedVPC, "isolated-vpc", false, "aws: call IAM and Pricing as little as possible, which have no endpoint inside a VPC")
	a.flag(&s.EKSControlPlane, "eks-control-plane", false, "aws: ask EKS for the version of Kubernetes, not the API server")
	a.factor(&s.VMMemoryOverheadPercent, "vm-memory-overhead-percent", 0.075, "aws: share of an instance's memory that the hypervisor keeps, used until a node of the instance type has reported its memory")
	a.text(&s.InterruptionQueue, "interruption-queue", "", "aws: name of the SQS queue with EC2's interruption notices; empty: none is read")
	a.flag(&s.ReplaceOnRebalance, "replace-on-rebalance", false, "aws: replace a spot instance within ten minutes when EC2 sends a rebalance recommendation; otherwise there is only an event")
	a.number(&s.ReservedENIs, "reserved-enis", 0, "aws: network interfaces of an instance that are not used for pod addresses")
	a.flag(&s.DisableDryRun, "disable-dry-run", false, "aws: accept node classes without a dry run of a launch in EC2")
	a.flag(&s.EnableZonalShift, "enable-zonal-shift", false, "aws: launch and terminate nothing in zones that the cluster's traffic is shifted away from (Amazon Application Recovery Controller)")
	a.duration(&s.AMIRefreshInterval, "ami-refresh-interval", time.Minute, "aws: how often the images of node classes are refreshed")
	a.duration(&s.SubnetRefreshInterval, "subnet-refresh-interval", time.Minute, "aws: how often the subnets of node classes and their free addresses are refreshed")
	a.duration(&s.GroupRefreshInterval, "security-group-refresh-interval", time.Minute, "aws: how often the security groups of node classes are refreshed")
	a.text(&s.AWSFeatureGates, "aws-feature-gates", awsFeatureGatesDefault, "aws: Name=true|false, comma separated; unknown names are ignored with a warning")
}

// validateAWS returns an error that names the flag and what it may be, if the
// provider is used.
func (s *AWSSettings) validateAWS(isUsed bool) error {
	if !isUsed {
		return nil
	}
	var name, endpoint, overhead, interfaces, refresh error
	if s.ClusterName == "" {
		name = errors.New("--cluster-name is empty; it must be the name of the EKS cluster")
	}
	if u, err := url.Parse(s.ClusterEndpoint); s.ClusterEndpoint != "" && (err != nil || !u.IsAbs() || u.Host == "") {
		endpoint = fmt.Errorf("--cluster-endpoint is %q; it may be a URL such as https://example.eks.amazonaws.com", s.ClusterEndpoint)
	}
	if !(s.VMMemoryOverheadPercent >= 0 && s.VMMemoryOverheadPercent < 1) {
		overhead = fmt.Errorf("--vm-memory-overhead-percent is %g; it may be 0 or more and less than 1", s.VMMemoryOverheadPercent)
	}
	if s.ReservedENIs < 0 {
		interfaces = fmt.Errorf("--reserved-enis is %d; it may be 0 or more", s.ReservedENIs)
	}
	for flag, every := range map[string]time.Duration{"ami-refresh-interval": s.AMIRefreshInterval, "subnet-refresh-interval": s.SubnetRefreshInterval, "security-group-refresh-interval": s.GroupRefreshInterval} {
		if every < refreshLeast {
			refresh = fmt.Errorf("--%s is %s; it must be at least 1m", flag, every)
		}
	}
	_, gates := readGates("aws-feature-gates", awsFeatureGatesDefault, s.AWSFeatureGates)
	return cmp.Or(name, endpoint, overhead, interfaces, refresh, gates)
}
