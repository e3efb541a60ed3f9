package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/cli/doctor"
)

func newMigrate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Move a cluster to Dovetail: what is stored in it, and its node groups",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newMigrateCRDs(), newMigrateDrain(), newMigrateNodeGroups())
	return cmd
}

func newMigrateCRDs() *cobra.Command {
	var kubeconfig string
	cmd := &cobra.Command{
		Use:   "crds",
		Short: "Store all objects in the version of the definitions, without a webhook",
		Long: `Mend what dovetail doctor finds in the definitions of NodePools, NodeClaims and node classes:
take out the conversion by a webhook of an earlier installation, write every object anew that
may be stored in an older version, and then strike that version from status.storedVersions.

Nothing else of the objects changes, and it may be repeated. You need the rights to patch
customresourcedefinitions and their status, and to list and update the objects.`,
		Example: `  dovetail migrate crds
  dovetail crds | kubectl apply --server-side --force-conflicts -f -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := restConfig(kubeconfig)
			if err != nil {
				return err
			}
			return doctor.Migrate(cmd.Context(), config, func(line string) { fmt.Fprintln(cmd.OutOrStdout(), line) })
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "how to reach the cluster; empty: KUBECONFIG, ~/.kube/config or the pod's own account")
	return cmd
}
