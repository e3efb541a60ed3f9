package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/operator"
)

// clientQPS and clientBurst are too high to be felt.
const clientQPS, clientBurst = 1000, 2000

// Run shows the story and stops everything it started. The error says which step failed.
// If the context ends before the story does, that is an error only with Exit.
func Run(ctx context.Context, opts Options) (err error) {
	if opts.Pods < 1 {
		return fmt.Errorf("--pods is %d; it must be at least 1", opts.Pods)
	}
	if opts.Provider != providerAWS && opts.Provider != providerKWOK {
		return fmt.Errorf("--cloud-provider is %q; it may be %s or %s", opts.Provider, providerAWS, providerKWOK)
	}
	binary, err := findDevcluster(opts.Devcluster)
	if err != nil {
		return err
	}
	if opts.keep = opts.Dir != ""; !opts.keep {
		if opts.Dir, err = os.MkdirTemp("", "dovetail-demo-"); err != nil {
			return fmt.Errorf("make a directory for the cluster: %w", err)
		}
	}
	narrator := &narrator{out: opts.Out, now: opts.Now, began: opts.Now()}
	narrator.plain("dovetail demo: a real control plane, %d pods, and the nodes they need", opts.Pods)
	logs := newTail()
	err = run(ctx, &opts, binary, narrator, logs)
	ended := ctx.Err() != nil
	switch {
	case err != nil && !ended:
		narrator.plain("\nA step did not hold. The end of the controller's log (%s):\n%s", logPath(opts.Dir), logs)
		return err
	case opts.keep:
		narrator.line("stopped", "the cluster stays in %s: --dir %s resumes it", opts.Dir, opts.Dir)
	default:
		if err := os.RemoveAll(opts.Dir); err != nil {
			return fmt.Errorf("remove the cluster's directory: %w", err)
		}
		narrator.line("stopped", "nothing is left")
	}
	if ended && opts.Exit {
		return errors.New("interrupted before every step had held")
	}
	return nil
}

func logPath(dir string) string { return filepath.Join(dir, "dovetail.log") }

// run starts everything, plays the acts and stops everything, in that order.
func run(ctx context.Context, opts *Options, binary string, narrator *narrator, logs *tail) (err error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	narrator.line("start", "%s, data in %s", binary, opts.Dir)
	cluster, err := startDevcluster(ctx, binary, opts.Dir, opts.keep, fail)
	if err != nil {
		return err
	}
	defer func() {
		fail(nil) // an API server whose watchers stay stops slowly
		err = errors.Join(err, cluster.stop())
	}()
	narrator.line("ready", "%s", cluster.versions)
	narrator.more("export KUBECONFIG=%s", cluster.kubeconfig)
	config, err := clientcmd.BuildConfigFromFlags("", cluster.kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS, config.Burst = clientQPS, clientBurst
	c, err := client.New(config, client.Options{Scheme: operator.Scheme()})
	if err != nil {
		return fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	s := &stage{opts: opts, narrator: narrator, client: c, story: kwokStory()}
	if opts.Provider == providerAWS {
		if s.account, err = startAccount(ctx, config, c); err != nil {
			return err
		}
		s.story = awsStory()
		narrator.line("start", "a simulated AWS account, %s; its nodes boot in %s to %s", s.account.url, bootLeast, bootMost)
	}
	if err := s.install(ctx); err != nil {
		return err
	}
	stop, err := s.startController(ctx, config, logs, fail)
	if err != nil {
		return err
	}
	defer stop()
	narrator.line("start", "dovetail controller, in this process; its log is %s", logPath(opts.Dir))
	if s.board, err = newBoard(ctx, config, s.account); err != nil {
		return err
	}
	if err := s.play(ctx); err != nil {
		return err
	}
	if opts.Exit {
		return nil
	}
	return s.linger(ctx, cluster.kubeconfig)
}

// startController runs the autoscaler until ctx ends or stop is called, which returns when it
// has ended. If it ends by itself, fail is called. Its log goes to a file, to logs and to the
// story.
func (s *stage) startController(ctx context.Context, config *rest.Config, logs *tail, fail context.CancelCauseFunc) (stop func(), err error) {
	file, err := os.OpenFile(logPath(s.opts.Dir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the controller's log: %w", err)
	}
	s.events = newFeed(slog.NewJSONHandler(io.MultiWriter(file, logs), nil))
	settings := s.opts.Settings
	settings.MetricsPort, settings.HealthProbePort, settings.DebugPort = 0, 0, 0
	settings.DisableLeaderElection, settings.LeaderElectionNamespace = false, "kube-system"
	settings.CloudProvider = s.opts.Provider
	run := operator.Options{Config: config, Log: slog.New(s.events), Version: s.opts.Version, Commit: s.opts.Commit}
	if s.account != nil {
		s.account.configure(&settings)
		run.AWS = s.account.reach()
	}
	run.Settings = settings
	ctx, cancel := context.WithCancel(ctx)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		err := operator.Run(ctx, run)
		if ctx.Err() == nil {
			fail(fmt.Errorf("the controller ended: %w", err))
		}
	}()
	return func() {
		cancel()
		<-gone
		_ = file.Close()
	}, nil
}
