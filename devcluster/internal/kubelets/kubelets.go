// Package kubelets plays the kubelets of all nodes that carry a certain label, with KWOK
// as a library: such a node becomes Ready and renews its lease, its pods run and end.
//
// What KWOK does to an object is written in stages: its own fast set, in which everything
// happens at once, then the files in stages/, then those of the user's directory.
package kubelets

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/kwok/controllers"
	"sigs.k8s.io/kwok/pkg/kwok/server"
	"sigs.k8s.io/kwok/pkg/utils/client"
)

// DefaultSelector matches the nodes that Dovetail's kwok provider makes.
const DefaultSelector = "kwok.x-k8s.io/node=fake"

// Options says which nodes are played, and where the kubelets answer.
type Options struct {
	Kubeconfig   string // with all rights
	StagesDir    string // more stages; empty: none
	NodeSelector string // label selector of the nodes
	NodeIP       string // InternalIP of every node; not loopback, if the API server is to reach the kubelets
	KubeletPort  int    // where the kubelets serve logs and port-forward, on NodeIP; 0: they do not
	PodLog       string // file served as the log of every pod; empty: none
	PodPort      int    // local port behind every forwarded port of a pod; 0: none
	CertFile     string // of the kubelets' server
	KeyFile      string
}

// Validate reads the selector and the stages, so that a mistake in them is told before
// anything starts.
func (o Options) Validate() error {
	if _, err := labels.Parse(o.NodeSelector); err != nil {
		return fmt.Errorf("--node-selector %s: %w", o.NodeSelector, err)
	}
	_, err := loadStages(o.StagesDir)
	return err
}

// Kubelets are the kubelets of all matching nodes.
type Kubelets struct {
	options    Options
	controller *controllers.Controller
}

// New reads the stages and connects to the API server, which must serve.
func New(o Options) (*Kubelets, error) {
	stages, err := loadStages(o.StagesDir)
	if err != nil {
		return nil, err
	}
	set, err := client.NewClientset("", o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	config, err := set.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	dynamic, err := set.ToDynamicClient()
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	mapper, err := set.ToRESTMapper()
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	raw, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	c, err := controllers.NewController(controllers.Config{
		Clock: clock.RealClock{}, ID: "devcluster",
		DynamicClient: dynamic, RESTClient: raw, RESTMapper: mapper, TypedClient: typed,
		ImpersonatingDynamicClient: set.ToImpersonatingDynamicClient(), ImpersonatingTypedClient: set.ToImpersonatingTypedClient(),
		ManageNodesWithLabelSelector: o.NodeSelector, LocalStages: stages,
		CIDR: "10.64.0.0/14", NodeIP: o.NodeIP, NodePort: o.KubeletPort,
		NodeLeaseDurationSeconds: 40, NodeLeaseParallelism: 8,
		PodPlayStageParallelism: 16, NodePlayStageParallelism: 8,
		PodsOnNodeSyncParallelism: 4, EnablePodsOnNodeSyncListPager: true, EnablePodCache: true,
	})
	if err != nil {
		return nil, fmt.Errorf("configure KWOK: %w", err)
	}
	return &Kubelets{options: o, controller: c}, nil
}

// Run plays the kubelets until the context ends.
func (k *Kubelets) Run(ctx context.Context) error {
	if err := k.controller.Start(ctx); err != nil {
		return err
	}
	if k.options.KubeletPort != 0 {
		return k.serve(ctx)
	}
	<-ctx.Done()
	return nil
}

// serve is the kubelets' own API, as far as logs and port-forward need it.
func (k *Kubelets) serve(ctx context.Context) error {
	config := server.Config{DataSource: k.controller, NodeCacheGetter: k.controller.GetNodeCache(), PodCacheGetter: k.controller.GetPodCache()}
	if k.options.PodLog != "" {
		config.ClusterLogs = []*internalversion.ClusterLogs{{Spec: internalversion.ClusterLogsSpec{
			Logs: []internalversion.Log{{LogsFile: k.options.PodLog}},
		}}}
	}
	if k.options.PodPort != 0 {
		target := &internalversion.ForwardTarget{Address: "127.0.0.1", Port: int32(k.options.PodPort)}
		config.ClusterPortForwards = []*internalversion.ClusterPortForward{{Spec: internalversion.ClusterPortForwardSpec{
			Forwards: []internalversion.Forward{{Target: target}},
		}}}
	}
	s, err := server.NewServer(config)
	if err != nil {
		return fmt.Errorf("configure the kubelets' server: %w", err)
	}
	s.InstallHealthz()
	s.InstallDebuggingHandlers()
	addr := net.JoinHostPort(k.options.NodeIP, strconv.Itoa(k.options.KubeletPort))
	slog.InfoContext(ctx, "kubelets serve", "address", addr)
	return s.Run(ctx, addr, k.options.CertFile, k.options.KeyFile)
}
