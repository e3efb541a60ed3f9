package demo

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws"
	"github.com/dovetail-sh/dovetail/internal/operator"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim/kubelets"
)

const (
	// accountCluster is the name of the EKS cluster that examples/aws/ is about, and of its queue.
	accountCluster = "demo"
	// bootLeast and bootMost are how long a instance of the demo takes to boot; real ones
	// take some ten times that.
	bootLeast, bootMost = 3 * time.Second, 6 * time.Second
	// answerTime is what most answers of the account take.
	answerTime = 40 * time.Millisecond
	// noticeTime is how long EC2 leaves a spot instance after its notice.
	noticeTime = 2 * time.Minute
)

// account is the simulated AWS account of a demo. Nothing outside of it is ever asked.
type account struct {
	sim *awssim.Sim
	url string
}

// startAccount serves an account whose instances join the cluster, until ctx ends.
func startAccount(ctx context.Context, config *rest.Config, c client.Client) (*account, error) {
	cluster, err := ClusterOf(config)
	if err != nil {
		return nil, err
	}
	cluster.Name = accountCluster
	nodes := kubelets.New(c, slog.New(slog.DiscardHandler))
	go nodes.Run(ctx)
	a := &account{}
	a.sim, err = awssim.New(awssim.Options{Seed: 1, Cluster: cluster, Registrar: nodes, MinBoot: bootLeast, MaxBoot: bootMost, Latency: answerTime})
	if err != nil {
		return nil, err
	}
	a.url, err = a.sim.Listen(ctx, "127.0.0.1:0")
	return a, err
}

// ClusterOf returns what an account knows of a cluster, but for its name.
func ClusterOf(config *rest.Config) (awssim.Cluster, error) {
	asked, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return awssim.Cluster{}, fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	version, err := asked.ServerVersion()
	if err != nil {
		return awssim.Cluster{}, fmt.Errorf("ask %s for its version: %w", config.Host, err)
	}
	minor := regexp.MustCompile(`^\d+`).FindString(version.Minor)
	return awssim.Cluster{
		Version: version.Major + "." + minor, Endpoint: config.Host, CertificateAuthority: base64.StdEncoding.EncodeToString(config.CAData),
	}, nil
}

// configure makes the controller's settings those of the account, whatever the environment says.
func (a *account) configure(s *operator.Settings) {
	s.AWSSettings = operator.AWSSettings{
		ClusterName: accountCluster, InterruptionQueue: accountCluster, VMMemoryOverheadPercent: s.VMMemoryOverheadPercent,
		AMIRefreshInterval: s.AMIRefreshInterval, SubnetRefreshInterval: s.SubnetRefreshInterval, GroupRefreshInterval: s.GroupRefreshInterval,
	}
}

// reach returns how the controller gets there.
func (a *account) reach() *aws.Account {
	o := a.sim.Options()
	return &aws.Account{
		URL: a.url, Region: o.Region, AccessKey: o.Credentials.AccessKey, SecretKey: o.Credentials.SecretKey, SessionToken: o.Credentials.SessionToken,
	}
}

// bill fills in what the instances cost, which no Node says.
func (a *account) bill(s *state) {
	s.spent, s.isBilled, s.priceHourly = a.sim.Spent(), true, 0
	price := map[string]float64{}
	for _, in := range a.sim.Instances() {
		price[in.ID] = in.PriceHourly
		if in.Live() {
			s.priceHourly += in.PriceHourly
		}
	}
	for i := range s.instances {
		s.instances[i].priceHourly = price[s.instances[i].instance]
	}
}

// interrupt gives a spot instance its notice.
func (a *account) interrupt(instance string) error {
	return a.sim.Inject(awssim.Fault{Kind: awssim.FaultInterrupt, Target: instance, Count: 1})
}

// isLive reports whether an instance runs, or is about to.
func (a *account) isLive(instance string) bool {
	for _, in := range a.sim.Instances() {
		if in.ID == instance {
			return in.Live()
		}
	}
	return false
}

// instanceID returns the id at the end of a provider ID.
func instanceID(providerID string) string { return providerID[strings.LastIndex(providerID, "/")+1:] }
