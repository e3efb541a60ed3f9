package cli

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dovetail-sh/dovetail/internal/operator"
)

func newController() *cobra.Command {
	var settings operator.Settings
	var kubeconfig string
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Run the autoscaler against a cluster",
		Long: `Run the autoscaler. In a pod it uses the pod's service account; elsewhere --kubeconfig,
KUBECONFIG or ~/.kube/config. Every flag can be given as an environment variable: its
name in capitals with underscores (--batch-idle-duration is BATCH_IDLE_DURATION).

An API server that is away, definitions that are not installed, missing rights and a lost
lease are waited for; the log and /readyz say what is missing.

Flags are read as Karpenter reads them: -name is --name. In a pod that has CLUSTER_NAME or
KARPENTER_SERVICE in its environment this is what dovetail does without a command.`,
		Example: `  dovetail controller --cloud-provider kwok --kubeconfig ~/.kube/config --leader-election-namespace kube-system
  dovetail controller --cloud-provider aws --cluster-name prod --log-level debug --batch-idle-duration 500ms`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := restConfig(kubeconfig)
			if err != nil {
				return err
			}
			log, closeLog, err := operator.NewLogger(&settings, cmd.OutOrStdout(), cmd.ErrOrStderr(), commit())
			if err != nil {
				return err
			}
			defer closeLog()
			return operator.Run(cmd.Context(), operator.Options{
				Settings: settings, Config: config, Log: log, Version: version, Commit: commit(),
			})
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "how to reach the cluster; empty: KUBECONFIG, ~/.kube/config or the pod's own account")
	settings.AddFlags(cmd.Flags())
	return cmd
}

// restConfig returns how to reach the cluster. The error names the file that is wrong.
func restConfig(kubeconfig string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if kubeconfig != "" {
		if _, err := os.Stat(kubeconfig); err != nil {
			return nil, fmt.Errorf("--kubeconfig: %w", err)
		}
		rules.ExplicitPath = kubeconfig
	} else if config, err := rest.InClusterConfig(); err == nil && os.Getenv("KUBECONFIG") == "" {
		return config, nil
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("no cluster to talk to: give --kubeconfig or set KUBECONFIG")
	}
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	return config, nil
}
