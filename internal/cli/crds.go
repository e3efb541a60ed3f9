package cli

import (
	"bytes"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/config/crd"
)

func newCRDs() *cobra.Command {
	var old bool
	cmd := &cobra.Command{
		Use:   "crds",
		Short: "Print the definitions of NodePool, NodeClaim and the other kinds",
		Long: `Print the definitions of NodePool, NodeClaim, the node classes, NodeOverlay and
CapacityBuffer. With --legacy, print those of Provisioner and AWSNodeTemplate instead, of
which the controller makes NodePools and EC2NodeClasses if it has --legacy-apis.`,
		Example: `  dovetail crds | kubectl apply --server-side --force-conflicts -f -
  dovetail crds --legacy | kubectl apply --server-side --force-conflicts -f -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			files, pattern := crd.Files(), "*.yaml"
			if old {
				files, pattern = crd.Legacy(), "legacy/*.yaml"
			}
			names, err := fs.Glob(files, pattern)
			if err != nil {
				return err
			}
			for _, name := range names {
				y, err := files.ReadFile(name)
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "---\n%s", bytes.TrimPrefix(y, []byte("---\n"))); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&old, "legacy", false, "the definitions of Provisioner and AWSNodeTemplate instead")
	return cmd
}
