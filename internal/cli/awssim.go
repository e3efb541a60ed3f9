package cli

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cli/demo"
	"github.com/dovetail-sh/dovetail/internal/operator"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim/kubelets"
)

// awssimInput is what the flags say.
type awssimInput struct {
	address, cluster, kubeconfig, scenario string
	seed                                   uint64
}

func newAWSSim() *cobra.Command {
	var input awssimInput
	cmd := &cobra.Command{
		Use:   "awssim",
		Short: "Serve a simulated AWS account on loopback",
		Long: `Serve a simulated AWS account that the AWS SDK can be pointed at: EC2, SQS, SSM, IAM, EKS,
Pricing and what else an autoscaler calls, with capacity that runs out, spot interruptions
and faults on demand (docs/reference/awssim.md). No AWS account is needed or touched.

With --kubeconfig the instances boot: each reads its user data as its image would, and its
Node joins that cluster, where KWOK plays its kubelet.`,
		Example: `  dovetail awssim
  dovetail awssim --kubeconfig demo.kubeconfig --scenario bad-day.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return serveAWSSim(cmd, &input) },
	}
	cmd.Flags().StringVar(&input.address, "address", "127.0.0.1:4599", "where to listen")
	cmd.Flags().StringVar(&input.cluster, "cluster-name", "demo", "name of the account's EKS cluster, its node role's suffix and its queue")
	cmd.Flags().StringVar(&input.kubeconfig, "kubeconfig", "", "the cluster that Nodes join; empty: none do")
	cmd.Flags().StringVar(&input.scenario, "scenario", "", "file of faults to play, YAML or JSON")
	cmd.Flags().Uint64Var(&input.seed, "seed", 1, "decides ids, boot times, latencies and prices")
	return cmd
}

func serveAWSSim(cmd *cobra.Command, input *awssimInput) error {
	ctx := cmd.Context()
	opts := awssim.Options{Seed: input.seed, Cluster: awssim.Cluster{Name: input.cluster}}
	if input.kubeconfig != "" {
		nodes, err := joinCluster(&opts.Cluster, input.kubeconfig, slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)))
		if err != nil {
			return err
		}
		opts.Registrar = nodes
		go nodes.Run(ctx)
	}
	sim, err := awssim.New(opts)
	if err != nil {
		return err
	}
	if err := playScenario(sim, input.scenario); err != nil {
		return err
	}
	url, err := sim.Listen(ctx, input.address)
	if err != nil {
		return err
	}
	keys := sim.Options().Credentials
	fmt.Fprintf(cmd.OutOrStdout(), "export AWS_ENDPOINT_URL=%s AWS_REGION=%s AWS_ACCESS_KEY_ID=%s AWS_SECRET_ACCESS_KEY=%s\n",
		url, sim.Options().Region, keys.AccessKey, keys.SecretKey)
	<-ctx.Done()
	return nil
}

// playScenario begins the faults of a file, if there is one.
func playScenario(sim *awssim.Sim, path string) error {
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--scenario: %w", err)
	}
	scenario, err := awssim.ReadScenario(text)
	if err != nil {
		return fmt.Errorf("--scenario %s: %w", path, err)
	}
	return sim.Inject(scenario.Faults...)
}

// joinCluster fills in what the account knows of a real cluster, and returns what brings
// Nodes into it.
func joinCluster(cluster *awssim.Cluster, kubeconfig string, log *slog.Logger) (*kubelets.Nodes, error) {
	config, err := restConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	name := cluster.Name
	if *cluster, err = demo.ClusterOf(config); err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	cluster.Name = name
	c, err := client.New(config, client.Options{Scheme: operator.Scheme()})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	return kubelets.New(c, log), nil
}
