package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/view"
)

func newUI() *cobra.Command {
	f, path := &viewFlags{output: formTable}, ""
	cmd := &cobra.Command{
		Use: "ui", Short: "Make the controller's pages reachable, and print where",
		Long: `Find the replica that leads, forward a local port to its debug port through the API server, and print
the address of its pages: overview, nodes, pending pods, decisions, NodePools, blockers, what is next, offerings, cost,
and what a change would do, which this command works out as dovetail whatif does. The pages change nothing and load
nothing from elsewhere. The port is forwarded until Ctrl-C; that needs the rights to list leases and to create
pods/portforward, and for what a change would do those of dovetail savings.

With --journal the pages are those of a file: one of a journal, its directory, or what dovetail share or
report wrote. They show the cluster as the last decision in it saw it, and all decisions. The cluster as another
decision saw it is at /at/ID/: the bar at the head of the pages leads there, and the page of the decision. What was
learned of shortages and when budgets open is in no journal.

The exit status is 5 when no controller can be reached.`,
		Example: `  dovetail ui
  dovetail ui --kubeconfig prod.yaml --controller-namespace karpenter
  dovetail ui --journal decision-17.txt`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if path != "" {
				if f.address != "" || f.kubeconfig != "" || f.namespace != "" {
					return wrongUse(cmd, errors.New("--journal shows a file: no controller is asked"))
				}
				v, err := openViews(cmd.Context(), path, cmd.ErrOrStderr())
				if err != nil {
					return err
				}
				return v.serve(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			given := f.address != ""
			address, err := f.locate(cmd.Context())
			if err != nil {
				return err
			}
			f.address = address
			if err := f.ask(cmd.Context(), "overview", nil, &view.Overview{}); err != nil {
				return err
			}
			if given || address == addressForwarded { // it is reachable without us
				fmt.Fprintf(cmd.OutOrStdout(), "%s/\n", address)
				return nil
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "dovetail: open it in a browser; Ctrl-C ends it")
			a := &asker{flags: whatIfFlags{viewFlags: *f}}
			return servePages(cmd.Context(), address, a.ask, cmd.OutOrStdout())
		},
	}
	f.addController(cmd)
	cmd.Flags().StringVar(&path, "journal", "", "show a journal file, or the directory of controller --journal-dir, instead of asking a controller")
	return cmd
}
