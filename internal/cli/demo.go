package cli

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dovetail-sh/dovetail/internal/cli/demo"
)

// demoPods is enough for several nodes of the example pool.
const demoPods = 50

func newDemo() *cobra.Command {
	opts := demo.Options{Now: time.Now, Version: version, Commit: commit()}
	// The controller's defaults and environment, without its flags.
	opts.Settings.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show pods getting nodes, on a real control plane of its own",
		Long: `Start a real Kubernetes control plane on this computer, a simulated AWS account and the
autoscaler, apply the manifests of examples/, and print what happens: pods come and get
nodes, EC2 takes a spot node away, an event says why a pod fits nowhere, the pods
go and the nodes leave. Nothing outside the cluster's directory is touched, and no real
cloud is asked for anything, whatever the environment says of one.`,
		Example: `  dovetail demo
  dovetail demo --exit --pods 200
  dovetail demo --cloud-provider kwok   # nodes without a cloud
  dovetail demo --dir ~/dovetail-demo   # keeps the cluster for the next time`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.Out = cmd.OutOrStdout()
			return demo.Run(cmd.Context(), opts)
		},
	}
	cmd.Flags().BoolVar(&opts.Exit, "exit", false, "end after the story, with status 0 if every step held")
	cmd.Flags().StringVar(&opts.Provider, "cloud-provider", "aws", "who makes the nodes: aws, in a simulated account, or kwok")
	cmd.Flags().IntVar(&opts.Pods, "pods", demoPods, "how many pods come")
	cmd.Flags().StringVar(&opts.Dir, "dir", "", "directory that keeps the cluster; empty: a temporary one")
	cmd.Flags().StringVar(&opts.Devcluster, "devcluster", "", "path of the devcluster binary; empty: beside this one")
	return cmd
}
