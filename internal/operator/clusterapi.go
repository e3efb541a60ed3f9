package operator

import (
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
)

// newClusterAPI returns the provider for Cluster API.
func newClusterAPI(mgr manager.Manager, opts *Options) (cloud.Provider, error) {
	s := &opts.Settings
	config, err := opts.managementConfig(mgr.GetConfig())
	if err != nil {
		return nil, err
	}
	management, err := client.NewWithWatch(config, client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		return nil, fmt.Errorf("management cluster: %w", err)
	}
	return clusterapi.New(mgr.GetClient(), clusterapi.Options{
		Management: management, Namespace: s.ClusterAPINamespace, PricesFile: s.ClusterAPIPricesFile, Reader: mgr.GetAPIReader(), Now: time.Now, Log: opts.Log,
	})
}

// managementConfig returns how the management cluster is reached; own is for the cluster of the nodes. What is
// written to either is fenced, and nothing is in observe mode.
func (o *Options) managementConfig(own *rest.Config) (*rest.Config, error) {
	s := &o.Settings
	config, err := s.Management()
	if err == nil && s.ClusterAPIKubeconfig != "" {
		config, err = followKubeconfig(s.ClusterAPIKubeconfig, o.Log)
	}
	switch {
	case err != nil:
		return nil, err
	case config == nil:
		config = rest.CopyConfig(own)
	default:
		config.Wrap(o.fence.transport)
		if s.observes() {
			config.Wrap(readOnly{log: o.Log}.wrap) // no lease of this process is there
		}
	}
	config.UserAgent = o.Config.UserAgent
	config.QPS, config.Burst = float32(s.KubeClientQPS), s.KubeClientBurst
	return config, nil
}
