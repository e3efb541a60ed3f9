package cli

import (
	"bytes"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/config/crd"
)

func newCRDs() *cobra.Command {
	return &cobra.Command{
		Use:     "crds",
		Short:   "Print the definitions of NodePool, NodeClaim and the other kinds",
		Example: "  dovetail crds | kubectl apply --server-side --force-conflicts -f -",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			files := crd.Files()
			names, err := fs.Glob(files, "*.yaml")
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
}
