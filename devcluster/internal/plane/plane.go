// Package plane runs a Kubernetes control plane in this process: etcd, kube-apiserver,
// kube-controller-manager and kube-scheduler, the real ones, started from their options.
//
// One process is possible under three conditions, which the code below keeps. The
// components' own cobra commands are not used: each arms the process's signal handler and
// configures logging, both of which panic or fail the second time. All flags are parsed
// before anything starts, because the feature gates are one registry for all, set once.
// And leader election is off, because losing a lease ends the process.
//
// Read plane.go (order of start and stop), components.go, flags.go, etcd.go.
package plane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dovetail-sh/dovetail/devcluster/internal/home"
)

const (
	readyTimeout = 90 * time.Second
	readyPoll    = 20 * time.Millisecond
	// stopTimeout bounds each of the two steps of a stop.
	stopTimeout = 10 * time.Second
)

// Plane is a running control plane.
type Plane struct {
	home       *home.Home
	etcd       *embed.Etcd
	components *components
	api        *crew
	clients    *crew
	client     kubernetes.Interface
	failed     chan error
	options    Options
}

// Options say how a control plane is started.
type Options struct {
	// Gangs has the API server serve PodGroups, and kube-scheduler schedule them.
	Gangs bool
	// SchedulerConfig is a KubeSchedulerConfiguration; empty: our own.
	SchedulerConfig []byte
	// Report is told of every step that is done.
	Report func(what string)
}

// Start starts the control plane of a home on a listening port and returns when it serves
// and the controllers have begun. The caller must call Stop, unless there is an error.
func Start(ctx context.Context, h *home.Home, listener net.Listener, o Options) (*Plane, error) {
	p := &Plane{home: h, failed: make(chan error, 1), options: o}
	p.api, p.clients = newCrew(p.failed), newCrew(p.failed)
	err := p.start(ctx, listener)
	if err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

func (p *Plane) start(ctx context.Context, listener net.Listener) (err error) {
	if p.etcd, err = startEtcd(ctx, p.home); err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	p.options.Report("etcd serves")
	if p.components, err = newComponents(p.home, listener, p.options); err != nil {
		return fmt.Errorf("configure the control plane: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", home.Kubeconfig(p.home.Dir))
	if err != nil {
		return fmt.Errorf("load kubeconfig: %w", err)
	}
	config.QPS = -1 // no limit: the polls below must not queue
	if p.client, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	p.api.start("kube-apiserver", p.components.apiserver)
	if err := p.await(ctx, "kube-apiserver", p.apiReady); err != nil {
		return err
	}
	p.options.Report("kube-apiserver is ready")
	p.clients.start("kube-controller-manager", p.components.controllerManager)
	p.clients.start("kube-scheduler", p.components.scheduler)
	return nil
}

// AwaitPods returns when pods can be created in the default namespace.
func (p *Plane) AwaitPods(ctx context.Context) error {
	return p.await(ctx, "kube-controller-manager", func(ctx context.Context) error {
		_, err := p.client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// Run adds a part of our own, a client of the API server, to the control plane. It is
// stopped with it, and the end of one is the end of the other.
func (p *Plane) Run(name string, run func(context.Context) error) { p.clients.start(name, run) }

// Failed gives the error of the first part that ended by itself.
func (p *Plane) Failed() <-chan error { return p.failed }

// Stop ends the control plane: clients of the API server first, since it waits for its
// requests, then the API server, then etcd.
func (p *Plane) Stop() error {
	err := errors.Join(p.clients.stop(), p.api.stop())
	if p.etcd != nil {
		p.etcd.Close()
	}
	return err
}

func (p *Plane) apiReady(ctx context.Context) error {
	body, err := p.client.Discovery().RESTClient().Get().AbsPath("/readyz").Param("verbose", "").DoRaw(ctx)
	if err != nil && len(body) > 0 {
		return fmt.Errorf("%w: %s", err, body)
	}
	return err
}

// await polls until ok returns nil. The error says what was last wrong with the part.
func (p *Plane) await(ctx context.Context, part string, ok func(context.Context) error) error {
	timed, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		err := ok(timed)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case err := <-p.failed:
			return err
		case <-timed.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%s was not ready after %s: %w", part, readyTimeout, err)
		}
	}
}

// crew is a set of parts that should run until they are told to stop.
type crew struct {
	ctx    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup
	failed chan<- error
}

func newCrew(failed chan<- error) *crew {
	c := &crew{failed: failed}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

func (c *crew) start(name string, run func(context.Context) error) {
	c.wait.Go(func() {
		err := run(c.ctx)
		if c.ctx.Err() != nil {
			return // some report the stop itself as an error
		}
		if err == nil {
			err = errors.New("ended by itself")
		}
		select {
		case c.failed <- fmt.Errorf("%s: %w", name, err):
		default: // the first failure is the cause; later ones follow from it
		}
	})
}

func (c *crew) stop() error {
	c.cancel()
	done := make(chan struct{})
	go func() { c.wait.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-time.After(stopTimeout):
		return fmt.Errorf("some parts had not stopped after %s", stopTimeout)
	}
}
