package cluster

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cluster is a simulated cluster: an API server and everything beside the product that uses it.
type Cluster struct {
	API       *API
	Scheduler *Scheduler
	Workloads *Workloads
	Volumes   *Volumes
	Kubelets  *Kubelets

	config *Config
}

// New returns an empty cluster.
func New(config *Config) *Cluster {
	mine := *config
	mine.Hooks.setDefaults()
	api := newAPI(&mine)
	c := &Cluster{config: &mine, API: api, Volumes: &Volumes{config: &mine, api: api}}
	c.Scheduler = newScheduler(&mine, api, c.Volumes)
	c.Workloads = newWorkloads(&mine, api, c.Volumes)
	c.Kubelets = &Kubelets{config: &mine, api: api, volumes: c.Volumes, workloads: c.Workloads}
	for _, observe := range []func(kind string, was, is client.Object){c.Scheduler.observe, c.Workloads.observe, c.Volumes.observe, c.Kubelets.observe} {
		api.Watch(observe)
	}
	return c
}

// checkEvery is how often the control plane checks all Nodes.
const checkEvery = 10 * time.Second

// Start has the control plane check Nodes from time to time.
func (c *Cluster) Start() {
	c.config.after(checkEvery, func() {
		c.Kubelets.check()
		c.Start()
	})
}
