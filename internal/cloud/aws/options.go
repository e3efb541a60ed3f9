package aws

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Options are what a provider is made of.
type Options struct {
	// ClusterName is that of the EKS cluster; what is made in AWS is tagged with it.
	ClusterName string
	// ClusterEndpoint is the URL of the API server that nodes join at; empty: EKS is asked.
	ClusterEndpoint string
	// ClusterCABundle is the certificate of that API server, PEM in base64.
	ClusterCABundle string
	// VMMemoryOverheadPercent is the part of an instance's memory that its hypervisor keeps, of 1.
	VMMemoryOverheadPercent float64
	// ReservedENIs are interfaces of every instance that pods do not get addresses from.
	ReservedENIs int64
	// KubernetesVersion returns major.minor of the cluster; nil: EKS is asked.
	KubernetesVersion func(context.Context) (string, error)
	// IsolatedVPC: the services that have no endpoint in a VPC are left alone, IAM and Pricing.
	IsolatedVPC bool
	// InterruptionQueue is the name of the SQS queue with EC2's notices; empty: there is none.
	InterruptionQueue string
	// DisableDryRun: node classes are not tried out before they are Ready.
	DisableDryRun bool
	// KubeletExpressions: spec.kubelet may have expressions.
	KubeletExpressions bool
	// NVIDIADevices and EFADevices: which devices of gpu.nvidia.com and of dra.net nodes will have is
	// known before there is one.
	NVIDIADevices, EFADevices bool
	// RebootForRepair: nodes whose accelerators have a fault that a reboot mends are rebooted. The
	// role then needs ec2:RebootInstances.
	RebootForRepair bool
	// AMIRefresh, SubnetRefresh and GroupRefresh are for how long the images, subnets and
	// security groups that were found for a class hold; 0: one minute.
	AMIRefresh, SubnetRefresh, GroupRefresh time.Duration
	// Reservations: capacity reservations are used.
	Reservations bool
	// ZonalShift: zones that are shifted away from are left alone.
	ZonalShift bool
	// ReadOnly: nothing is changed in the account or on node classes. Only requests are sent whose names begin with
	// Describe, Get or List; a dry run is none.
	ReadOnly bool
	// Config is how AWS is reached.
	Config aws.Config
	// Marks writes on NodeClaims in which fleet their instances are requested, before that is sent; nil: the
	// client. A launch waits for it, so it should have a rate of its own.
	Marks client.Writer
	// Reader reads from the API server itself; nil: the client.
	Reader client.Reader
	Now    func() time.Time
	Log    *slog.Logger
	// Called gets every request to AWS and each of its attempts; may be nil.
	Called func(Call)
	// Handled gets every message of the queue that was handled: its kind and how long it was
	// under way; may be nil.
	Handled func(kind string, underWay time.Duration)
	// Meter gets what else is counted; nil: nothing is.
	Meter Meter
}

// withDefaults returns the options with a value for everything that may be left out. c is the
// client that reads where no Reader is given.
func (o Options) withDefaults(c client.Client) (Options, error) {
	if o.ClusterName == "" {
		return o, errors.New("aws provider: no cluster name; set --cluster-name or CLUSTER_NAME")
	}
	if o.Now == nil {
		return o, errors.New("aws provider: no clock")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Reader == nil {
		o.Reader = c
	}
	if o.Marks == nil {
		o.Marks = c
	}
	if o.Meter == nil {
		o.Meter = noMeter{}
	}
	o.AMIRefresh, o.SubnetRefresh = cmp.Or(o.AMIRefresh, imagesAgain), cmp.Or(o.SubnetRefresh, subnetsAgain)
	o.GroupRefresh = cmp.Or(o.GroupRefresh, groupsAgain)
	return o, nil
}

// Meter counts what becomes of instances.
type Meter interface {
	// LaunchFailed is called for each refusal in EC2's answer to a launch.
	LaunchFailed(zone, zoneID, capacityType, reason string)
	// TerminationFailed is called for each instance that EC2 did not end when it was asked to.
	TerminationFailed(zone, zoneID string)
	// Gathered is called for each request that combines several: what it asks, how long it
	// waited for others, and how many it combines.
	Gathered(what string, waited time.Duration, size int)
	// UserData gets the size of a class's user data before it is encoded; 0: the class is gone.
	UserData(class string, bytes int)
	// Unhealthy is called when EC2 begins to report that an instance is unhealthy: by
	// instance_status, system_status or event_status.
	Unhealthy(category string)
	// PricesRead is called whenever the prices of a capacity type were read, or could not be.
	// at is when those in use were read.
	PricesRead(capacityType string, at time.Time)
}

// noMeter is the meter of those who do not count.
type noMeter struct{}

func (noMeter) LaunchFailed(_, _, _, _ string) {}

func (noMeter) TerminationFailed(_, _ string) {}

func (noMeter) Gathered(string, time.Duration, int) {}

func (noMeter) UserData(string, int) {}

func (noMeter) Unhealthy(string) {}

func (noMeter) PricesRead(string, time.Time) {}
