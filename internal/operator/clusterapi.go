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

// newClusterAPI returns the provider for Cluster API. What it writes to the management cluster is fenced.
func newClusterAPI(mgr manager.Manager, opts *Options) (cloud.Provider, error) {
	s := &opts.Settings
	config, err := s.management()
	if err != nil {
		return nil, err
	}
	if config == nil {
		config = rest.CopyConfig(mgr.GetConfig()) // which is fenced
	} else {
		config.Wrap(opts.fence.transport)
	}
	config.UserAgent = opts.Config.UserAgent
	config.QPS, config.Burst = float32(s.KubeClientQPS), s.KubeClientBurst
	management, err := client.NewWithWatch(config, client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		return nil, fmt.Errorf("management cluster: %w", err)
	}
	return clusterapi.New(mgr.GetClient(), clusterapi.Options{
		Management: management, Namespace: s.ClusterAPINamespace, PricesFile: s.ClusterAPIPricesFile, Reader: mgr.GetAPIReader(), Now: time.Now, Log: opts.Log,
	})
}
