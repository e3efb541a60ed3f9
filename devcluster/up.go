package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/devcluster/internal/home"
	"github.com/dovetail-sh/dovetail/devcluster/internal/kubelets"
	"github.com/dovetail-sh/dovetail/devcluster/internal/logs"
	"github.com/dovetail-sh/dovetail/devcluster/internal/plane"
)

// upFlags are the flags of `devcluster up`.
type upFlags struct {
	dir             string
	port            int
	parent          int  // pid; 0: do not care
	scratch         bool // the data is worth nothing without the parent
	gangs           bool
	scheduler       string // configuration file; empty: our own
	schedulerConfig []byte // its text
	verbosity       int
	kubelets        kubelets.Options
}

// gcPercent trades memory for the time of the start, a fifth of which is garbage collection
// otherwise (measured: README.md). GOGC overrides it.
const gcPercent = 200

// whoeverStarted is the value of --with-parent when none is given.
const whoeverStarted = -1

func newUpCommand() *cobra.Command {
	var u upFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a cluster in the foreground, new or resumed, until Ctrl-C",
		Long: `Run a cluster in the foreground until Ctrl-C, SIGTERM or devcluster down.

A directory that had a cluster resumes it: the same objects, certificates and port,
so that kubeconfigs and tokens given out before keep working. That holds after a
SIGKILL too. The last line printed is "ready".

KWOK plays the kubelet of every node that matches --node-selector. Create such a node
with status.capacity and status.allocatable set, and pods run on it. In a directory
given with --stages, a file of KWOK Stages changes what happens to nodes and pods: a
stage of the same kind and name replaces a built-in one.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("port") {
				u.port = home.PortKept
			}
			return u.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	addDirFlag(cmd, &u.dir)
	f.IntVar(&u.port, "port", 0, "port of the API server on 127.0.0.1, 0 for a free one (default: the one the directory had, or a free one)")
	f.StringVar(&u.kubelets.StagesDir, "stages", "", "directory of KWOK Stage files, *.yaml")
	f.StringVar(&u.kubelets.NodeSelector, "node-selector", kubelets.DefaultSelector, "label selector of the nodes to play")
	f.StringVar(&u.kubelets.NodeIP, "node-ip", "127.0.0.1", "InternalIP of the nodes; not loopback, if kubectl logs and port-forward are to work")
	f.IntVar(&u.kubelets.KubeletPort, "kubelet-port", 0, "port on --node-ip where the kubelets serve logs and port-forward (0: nowhere)")
	f.StringVar(&u.kubelets.PodLog, "pod-log", "", "file served as the log of every pod, in the format of container runtimes (TIME stdout F text)")
	f.IntVar(&u.kubelets.PodPort, "pod-port", 0, "local port behind every forwarded port of a pod")
	f.BoolVar(&u.gangs, "gangs", false, "serve PodGroups (scheduling.k8s.io/v1beta1, gate GenericWorkload); the same each time a directory is resumed")
	f.StringVar(&u.scheduler, "scheduler-config", "", "KubeSchedulerConfiguration file for kube-scheduler; its connection and leader election are the dev cluster's")
	f.IntVar(&u.parent, "with-parent", 0, "end when the process with this pid ends, kill -9 included; it must have started this one (without =PID: whoever did)")
	f.Lookup("with-parent").NoOptDefVal = fmt.Sprint(whoeverStarted)
	f.BoolVar(&u.scratch, "scratch", false, "with --with-parent: delete the data when that process has ended")
	f.IntVarP(&u.verbosity, "v", "v", 0, "verbosity of DIR/devcluster.log")
	return cmd
}

// run is one life of a cluster.
func (u *upFlags) run(ctx context.Context, out io.Writer) error {
	began := time.Now()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends us at once
	// When our parent is gone, so is the reader of our output: that must not end us before
	// etcd is closed.
	signal.Ignore(syscall.SIGPIPE)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if u.parent != 0 {
		ctx = withParent(ctx, u.parent)
	}

	if err := u.kubelets.Validate(); err != nil {
		return err
	}
	if u.scheduler != "" {
		var err error
		if u.schedulerConfig, err = os.ReadFile(u.scheduler); err != nil {
			return fmt.Errorf("--scheduler-config: %w", err)
		}
	}
	h, err := home.Open(u.dir)
	if err != nil {
		return err
	}
	defer h.Close()
	listener, err := h.Listen(u.port)
	if err != nil {
		return err
	}
	defer listener.Close()
	server := "https://" + listener.Addr().String()
	if err := h.WriteCredentials(server, began); err != nil {
		return err
	}
	if err := logs.To(h.Path("devcluster.log"), u.verbosity); err != nil {
		return err
	}
	story := &story{out: out, began: began}
	fmt.Fprintf(out, "devcluster: %s\n", versions())
	story.tell("directory " + h.Dir)

	if err := u.live(ctx, h, listener, story); err != nil {
		return fmt.Errorf("%w (more in %s)", err, h.Path("devcluster.log"))
	}
	story.tell("stopped")
	if u.scratch && errors.Is(context.Cause(ctx), errParentEnded) {
		h.Close()
		return home.Delete(h.Dir)
	}
	return nil
}

// live starts everything, waits for the end of the context, and stops everything. It
// returns nil when the context's end was the reason.
func (u *upFlags) live(ctx context.Context, h *home.Home, listener net.Listener, story *story) error {
	p, err := plane.Start(ctx, h, listener, plane.Options{Gangs: u.gangs, SchedulerConfig: u.schedulerConfig, Report: story.tell})
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil // told to stop while starting
	}
	if err != nil {
		return err
	}
	err = u.serve(ctx, h, p, story)
	if ctx.Err() != nil {
		err = nil
		story.tell("stopping")
	}
	return errors.Join(err, p.Stop())
}

// serve adds the kubelets and returns when the context or a part of the cluster ends.
func (u *upFlags) serve(ctx context.Context, h *home.Home, p *plane.Plane, story *story) error {
	o := u.kubelets
	o.Kubeconfig = h.ClientConfig("kwok")
	o.CertFile, o.KeyFile = h.Path("pki", "apiserver.crt"), h.Path("pki", "apiserver.key")
	k, err := kubelets.New(o)
	if err != nil {
		return fmt.Errorf("start kubelets: %w", err)
	}
	p.Run("kubelets", k.Run)
	if err := p.AwaitPods(ctx); err != nil {
		return err
	}
	story.tell("kube-controller-manager, kube-scheduler and kubelets are started")
	fmt.Fprintf(story.out, "kubeconfig %s\nready\n", home.Kubeconfig(h.Dir))
	select {
	case <-ctx.Done():
		return nil
	case err := <-p.Failed():
		return err
	}
}

// story prints what happens, with the seconds since the beginning.
type story struct {
	out   io.Writer
	began time.Time
}

func (s *story) tell(what string) {
	fmt.Fprintf(s.out, "%6.2fs  %s\n", time.Since(s.began).Seconds(), what)
}
