package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dovetail-sh/dovetail/devcluster/internal/home"
)

const (
	// statusStopped is the exit status of `devcluster status` when nothing runs.
	statusStopped = 3
	statusTimeout = 10 * time.Second
)

func newStatusCommand() *cobra.Command {
	var dir string
	var quiet bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say whether the cluster of a directory runs, and where",
		Long:  "Say whether the cluster of a directory runs, and where. The exit status is 0 when it runs and 3 when not.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pid, running, err := home.Holder(dir)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			switch {
			case quiet && running:
				fmt.Fprintln(out, home.Kubeconfig(dir))
			case running:
				return printStatus(cmd.Context(), out, dir, pid)
			case !quiet:
				fmt.Fprintf(out, "stopped    %s\n", dir)
			}
			if !running {
				return &exitError{status: statusStopped}
			}
			return nil
		},
	}
	addDirFlag(cmd, &dir)
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print the kubeconfig's path only")
	return cmd
}

func printStatus(ctx context.Context, out io.Writer, dir string, pid int) error {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", home.Kubeconfig(dir))
	if err != nil {
		return fmt.Errorf("pid %d runs in %s and has no kubeconfig yet: %w", pid, dir, err)
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "running\tpid %d\n", pid)
	fmt.Fprintf(t, "directory\t%s\n", dir)
	fmt.Fprintf(t, "kubeconfig\t%s\n", home.Kubeconfig(dir))
	fmt.Fprintf(t, "server\t%s\n", config.Host)
	if err := printCounts(ctx, t, config); err != nil {
		_ = t.Flush()
		return fmt.Errorf("ask the API server at %s: %w", config.Host, err)
	}
	return t.Flush()
}

func printCounts(ctx context.Context, out io.Writer, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	v, err := client.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "version\tKubernetes %s\n", v.GitVersion)
	// One object and the number of those left out is the cheapest way to count.
	one := metav1.ListOptions{Limit: 1}
	nodes, err := client.CoreV1().Nodes().List(ctx, one)
	if err != nil {
		return err
	}
	pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, one)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "nodes\t%d\n", count(len(nodes.Items), nodes.RemainingItemCount))
	fmt.Fprintf(out, "pods\t%d\n", count(len(pods.Items), pods.RemainingItemCount))
	return nil
}

func count(listed int, remaining *int64) int64 {
	if remaining == nil {
		return int64(listed)
	}
	return int64(listed) + *remaining
}
