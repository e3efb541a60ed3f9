package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/view"
)

func newUI() *cobra.Command {
	f := &viewFlags{output: formTable}
	cmd := &cobra.Command{
		Use: "ui", Short: "Make the controller's pages reachable, and print where",
		Long: `Find the replica that leads, forward a local port to its debug port through the API server, and print
the address of its pages: overview, nodes, pending pods, decisions, NodePools, blockers, what is next, offerings, cost.
The pages change nothing and load nothing from elsewhere. The port is forwarded until Ctrl-C; that needs the
rights to list leases and to create pods/portforward.

The exit status is 5 when no controller can be reached.`,
		Example: `  dovetail ui
  dovetail ui --kubeconfig prod.yaml --controller-namespace karpenter`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			given := f.address != ""
			address, err := f.locate(cmd.Context())
			if err != nil {
				return err
			}
			f.address = address
			if err := f.ask(cmd.Context(), "overview", nil, &view.Overview{}); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s/\n", address)
			if given || address == addressForwarded {
				return nil // it is reachable without us
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "dovetail: open it in a browser; Ctrl-C ends it")
			<-cmd.Context().Done()
			return nil
		},
	}
	f.addController(cmd)
	return cmd
}
