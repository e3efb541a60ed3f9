package cli

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/simulate"
)

func newExplain() *cobra.Command {
	var from journalFlags
	var output string
	cmd := &cobra.Command{
		Use:   "explain POD|NODE|NODECLAIM|NODEPOOL|CAPACITYBUFFER",
		Short: "Say why a pod is where it is, and why a node was launched, stays or goes",
		Long: `Ask the journal of a controller what was decided about a pod, a node or a NodeClaim: the
target node of a pod, or why no node can take it (the nearest miss of each pool), since
when, and how often; what a node was launched for, why it stays, or why it is removed.
Of a NodePool: what was launched from it, and how one with replicas came to its number of
nodes, or why it is short of some. Of a CapacityBuffer: where it has room, or why it has none.

The name is NAME, NAMESPACE/NAME of a pod, or pod/NAME, node/NAME, nodeclaim/NAME,
nodepool/NAME, capacitybuffer/NAME, capacitybuffer/NAMESPACE/NAME.

The journal is read from the debug port of the replica that leads, through the API server, as
kubectl port-forward does; that needs the rights to list leases and to create pods/portforward.
With --address another address is asked, and with --journal it is read from a file instead.`,
		Example: `  dovetail explain pod/web-7x2kq
  dovetail explain shop/web-7x2kq --address http://localhost:9090
  dovetail explain node/general-9f6mz --journal /var/lib/dovetail
  dovetail explain nodepool/baseline
  dovetail explain capacitybuffer/shop/headroom
  dovetail explain web-7x2kq -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(cmd, output); err != nil {
				return err
			}
			subject, err := journal.ParseSubject(args[0])
			if err != nil {
				return wrongUse(cmd, err)
			}
			file, err := from.read(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			answers, err := file.Explain(subject)
			if err != nil {
				return err
			}
			if len(answers) == 0 {
				return fmt.Errorf("no decision is about %s; %s", args[0], known(file, from.where()))
			}
			if output == simulate.JSON {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(answers)
			}
			return journal.Print(cmd.OutOrStdout(), answers, time.Now())
		},
	}
	from.addPath(cmd)
	from.addAddress(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", simulate.Table, "table or json")
	return cmd
}

// known says what a journal has.
func known(file *journal.File, where string) string {
	n := len(file.Decisions)
	if n == 0 {
		return fmt.Sprintf("%s has none yet", where)
	}
	return fmt.Sprintf("%s has %d, the oldest of %s; pods that kube-scheduler placed without help are in none",
		where, n, file.Decisions[0].At.Local().Format(time.DateTime))
}

func checkOutput(cmd *cobra.Command, output string) error {
	if output != simulate.Table && output != simulate.JSON {
		return wrongUse(cmd, fmt.Errorf("--output is %q, must be table or json", output))
	}
	return nil
}
