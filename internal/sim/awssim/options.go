package awssim

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Registrar is the API server's side of the instances: Tick calls it with
// their Nodes, one call after the other.
type Registrar interface {
	// Join is called when an instance's kubelet registers its Node, which is ready: after the launch,
	// and again after each reboot, with another boot ID.
	Join(node *corev1.Node)
	// Leave is called when an instance whose Node joined is gone.
	Leave(nodeName string)
}

// Credentials is what requests must be signed with. SessionToken may be empty.
type Credentials struct {
	AccessKey, SecretKey, SessionToken string
}

// Cluster is the EKS cluster that the account has.
type Cluster struct {
	Name, Version, Endpoint string
	// CertificateAuthority is base64.
	CertificateAuthority string
	ServiceCIDR          string
}

// NodeGroup is a managed node group of EKS.
type NodeGroup struct {
	Name string
	// Fields are those of DescribeNodegroup's answer as EKS writes them, as in "instanceTypes".
	Fields map[string]any
}

// ScalingGroup is an Auto Scaling group.
type ScalingGroup struct {
	Name string
	// Fields are those of DescribeAutoScalingGroups' answer as EC2 Auto Scaling writes them, as in "MinSize".
	Fields map[string]any
}

// Options says what the account is like. Zero values give a working one.
type Options struct {
	Seed  uint64
	Clock Clock
	// Registrar may be nil: no Node joins then.
	Registrar   Registrar
	Region      string
	AccountID   string
	Cluster     Cluster
	Credentials Credentials
	// Subnets is what the account has; nil: one private and one public subnet in each zone.
	Subnets []Subnet
	// Roles are the IAM roles that exist besides KarpenterNodeRole-<cluster>.
	Roles []string
	// Families are the families of instance types that EC2 sells; nil: all of the shipped catalog.
	// Most of the CPU time of a test goes into reading all of them.
	Families []string
	// NodeGroups are the managed node groups of the cluster. They have no instances.
	NodeGroups []NodeGroup
	// ScalingGroups are the Auto Scaling groups of the account. They launch nothing.
	ScalingGroups []ScalingGroup
	// Queue is the name of the interruption queue; empty: the cluster's name.
	Queue string
	// BootTime is how long it takes from launch to the Node, MinBoot..MaxBoot evenly.
	// Zero: 20 to 40 seconds.
	MinBoot, MaxBoot time.Duration
	// MinEnd..MaxEnd is how long an instance is shutting down. Zero: 10 to
	// 40 seconds.
	MinEnd, MaxEnd time.Duration
	// Latency is the median time of an answer; the distribution has a long tail (the 99th
	// hundredth is five times the median). Zero: none.
	Latency time.Duration
	// Consistency is how long a new thing stays unseen by Describe and its like, at most.
	Consistency time.Duration
	// Unlimited lifts the token buckets.
	Unlimited bool
	// Capacity returns how many instances a pool has; nil: enough.
	Capacity func(capacityType, instanceType, zone string) int
	// Beliefs are what AWS does where nobody has confirmed it.
	Beliefs Beliefs
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = systemClock{}
	}
	o.Region = cmp.Or(o.Region, "us-east-1")
	o.AccountID = cmp.Or(o.AccountID, "111122223333")
	o.Cluster.Name = cmp.Or(o.Cluster.Name, "demo")
	o.Cluster.Version = cmp.Or(o.Cluster.Version, "1.35")
	o.Cluster.Endpoint = cmp.Or(o.Cluster.Endpoint, "https://demo.eks.local")
	o.Cluster.CertificateAuthority = cmp.Or(o.Cluster.CertificateAuthority, "Y2VydGlmaWNhdGU=")
	o.Cluster.ServiceCIDR = cmp.Or(o.Cluster.ServiceCIDR, "172.20.0.0/16")
	o.Queue = cmp.Or(o.Queue, o.Cluster.Name)
	if o.Credentials == (Credentials{}) {
		o.Credentials = Credentials{AccessKey: "AKIDAWSSIM0000000001", SecretKey: "awssim-secret-of-the-only-user-00000001"}
	}
	if o.MinBoot == 0 && o.MaxBoot == 0 {
		o.MinBoot, o.MaxBoot = 20*time.Second, 40*time.Second
	}
	o.MaxBoot = max(o.MaxBoot, o.MinBoot)
	if o.MinEnd == 0 && o.MaxEnd == 0 {
		o.MinEnd, o.MaxEnd = 10*time.Second, 40*time.Second
	}
	o.MaxEnd = max(o.MaxEnd, o.MinEnd)
	return o
}
