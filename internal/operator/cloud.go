package operator

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/kwok"
	"github.com/dovetail-sh/dovetail/internal/cloud/multi"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

// newProvider returns the cloud of --cloud-provider, or several as one.
func newProvider(ctx context.Context, mgr manager.Manager, opts *Options, m *observe.Metrics) (cloud.Provider, error) {
	return each(opts.Settings.providers(), func(name string) (cloud.Provider, error) { return newOne(ctx, name, mgr, opts, m) })
}

// each makes the providers of these names, and one of several.
func each(names []string, build func(name string) (cloud.Provider, error)) (cloud.Provider, error) {
	var members []cloud.Provider
	for _, name := range names {
		member, err := build(name)
		if err != nil {
			return nil, err
		}
		members = append(members, member)
	}
	if len(members) == 1 {
		return members[0], nil
	}
	all, err := multi.New(members...)
	if err != nil {
		return nil, fmt.Errorf("--cloud-provider=%s: %w", strings.Join(names, ","), err)
	}
	return all, nil
}

func newOne(ctx context.Context, name string, mgr manager.Manager, opts *Options, m *observe.Metrics) (cloud.Provider, error) {
	s := &opts.Settings
	switch name {
	case providerAWS:
		return newAWS(ctx, mgr, opts, m)
	case providerRemote:
		if s.observes() {
			return opts.link.provider(mgr.GetAPIReader(), func() error { return errObserves }), nil
		}
		return opts.link.provider(mgr.GetAPIReader(), opts.fence.Check), nil
	case providerClusterAPI:
		return newClusterAPI(mgr, opts)
	}
	return kwok.New(mgr.GetClient(), kwok.Options{InstanceTypesFile: s.InstanceTypesFilePath, Now: time.Now, Log: opts.Log, Reader: mgr.GetAPIReader()})
}

// detachedProvider returns the same cloud without anything to talk to: enough to check the
// settings, and to ask what never changes. A provider that is remote must have described itself before.
func detachedProvider(with *Options) (cloud.Provider, error) {
	return each(with.Settings.providers(), func(name string) (cloud.Provider, error) { return detachedOne(name, with) })
}

func detachedOne(name string, with *Options) (cloud.Provider, error) {
	s := &with.Settings
	switch name {
	case providerKWOK:
		return kwok.New(nil, kwok.Options{InstanceTypesFile: s.InstanceTypesFilePath, Now: time.Now})
	case providerRemote:
		return with.link.provider(nil, nil), nil
	case providerClusterAPI:
		return clusterapi.New(nil, clusterapi.Options{PricesFile: s.ClusterAPIPricesFile, Now: time.Now})
	}
	opts, err := awsOptions(s)
	if err != nil {
		return nil, err
	}
	return aws.New(nil, opts)
}

// RebootForRepair reports whether a list of gates, as --aws-feature-gates has it, has nodes rebooted.
func RebootForRepair(gates string) (bool, error) {
	own, err := readGates("aws-feature-gates", awsFeatureGatesDefault, gates)
	return own["RebootForRepair"], err
}

// awsOptions are what the settings say.
func awsOptions(s *Settings) (aws.Options, error) {
	gates, err := s.Gates()
	if err != nil {
		return aws.Options{}, err
	}
	own, err := readGates("aws-feature-gates", awsFeatureGatesDefault, s.AWSFeatureGates)
	if err != nil {
		return aws.Options{}, err
	}
	return aws.Options{
		ClusterName: s.ClusterName, ClusterEndpoint: s.ClusterEndpoint, ClusterCABundle: s.ClusterCABundle, IsolatedVPC: s.IsolatedVPC,
		VMMemoryOverheadPercent: s.VMMemoryOverheadPercent, ReservedENIs: int64(s.ReservedENIs),
		DisableDryRun: s.DisableDryRun, InterruptionQueue: s.InterruptionQueue, KubeletExpressions: own["NodeClassCEL"], RebootForRepair: own["RebootForRepair"], NVIDIADevices: own["DRANVIDIAGPU"], EFADevices: own["DRAEFA"], Reservations: gates["ReservedCapacity"],
		ReadOnly: s.observes(), ZonalShift: s.EnableZonalShift, AMIRefresh: s.AMIRefreshInterval, SubnetRefresh: s.SubnetRefreshInterval, GroupRefresh: s.GroupRefreshInterval,
		Now: time.Now,
	}, nil
}

func newAWS(ctx context.Context, mgr manager.Manager, with *Options, m *observe.Metrics) (cloud.Provider, error) {
	s := &with.Settings
	opts, err := awsOptions(s)
	if err != nil {
		return nil, err
	}
	opts.Log = with.Log
	if with.AWS != nil {
		opts.Config = with.AWS.Config()
	} else if opts.Config, err = aws.LoadConfig(ctx); err != nil {
		return nil, err
	}
	opts.Config.HTTPClient = fencedDoer{opts.Config.HTTPClient, with.fence}
	opts.Reader = mgr.GetAPIReader()
	if opts.ClusterCABundle == "" {
		if opts.ClusterCABundle, err = caBundle(mgr.GetConfig()); err != nil {
			return nil, err
		}
	}
	if !s.EKSControlPlane {
		opts.KubernetesVersion = func(context.Context) (string, error) { return serverVersion(mgr.GetConfig()) }
	}
	opts.Called = func(c aws.Call) {
		labels := []string{c.Service, c.Operation, strconv.Itoa(c.Status)}
		if c.Attempts == 0 {
			m.AWSAttempts.WithLabelValues(labels...).Inc()
			m.AWSAttemptDuration.WithLabelValues(labels...).Observe(c.Took.Seconds())
			return
		}
		m.AWSRequests.WithLabelValues(labels...).Inc()
		m.AWSRequestDuration.WithLabelValues(labels...).Observe(c.Took.Seconds())
		m.AWSRetries.WithLabelValues(labels...).Observe(float64(c.Attempts - 1))
	}
	opts.Handled = func(kind string, underWay time.Duration) {
		m.InterruptionReceived.WithLabelValues(kind).Inc()
		m.InterruptionDeleted.Inc()
		m.InterruptionQueueSeconds.Observe(underWay.Seconds())
	}
	opts.Meter = meter{m}
	if opts.Marks, err = apply.UrgentClient(mgr); err != nil {
		return nil, err
	}
	return aws.New(mgr.GetClient(), opts)
}

// meter counts what becomes of instances of EC2.
type meter struct{ m *observe.Metrics }

func (c meter) LaunchFailed(zone, zoneID, capacityType, reason string) {
	c.m.LaunchFailures.WithLabelValues(zone, zoneID, capacityType, reason).Inc()
}

func (c meter) TerminationFailed(zone, zoneID string) {
	c.m.TerminationFailures.WithLabelValues(zone, zoneID).Inc()
}

func (c meter) Gathered(what string, waited time.Duration, size int) {
	c.m.BatchTime.WithLabelValues(what).Observe(waited.Seconds())
	c.m.BatchSize.WithLabelValues(what).Observe(float64(size))
}

func (c meter) UserData(class string, bytes int) {
	if bytes == 0 {
		c.m.UserDataBytes.DeleteLabelValues(class)
		return
	}
	c.m.UserDataBytes.WithLabelValues(class).Set(float64(bytes))
}

func (c meter) Unhealthy(category string) { c.m.InstanceUnhealthy.WithLabelValues(category).Inc() }

func (c meter) PricesRead(capacityType string, at time.Time) {
	c.m.PricesReadTimestampSeconds.WithLabelValues(capacityType).Set(float64(at.Unix()))
}

// caBundle returns the certificate by which the process itself knows the API server.
func caBundle(config *rest.Config) (string, error) {
	ca := config.CAData
	if len(ca) == 0 && config.CAFile != "" {
		var err error
		if ca, err = os.ReadFile(config.CAFile); err != nil {
			return "", fmt.Errorf("read the certificate of the API server, which nodes need: %w; set --cluster-ca-bundle", err)
		}
	}
	return base64.StdEncoding.EncodeToString(ca), nil
}

// serverVersion returns major.minor of the API server.
func serverVersion(config *rest.Config) (string, error) {
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", fmt.Errorf("ask the API server its version: %w", err)
	}
	v, err := d.ServerVersion()
	if err != nil {
		return "", fmt.Errorf("ask the API server its version: %w", err)
	}
	return v.Major + "." + strings.TrimSuffix(v.Minor, "+"), nil
}

func providerKinds(opts *Options) []schema.GroupVersionKind {
	p, err := detachedProvider(opts)
	if err != nil {
		return nil
	}
	return p.ClassKinds()
}
