package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/operator"
)

func newUntaint() *cobra.Command {
	var kubeconfig string
	cmd := &cobra.Command{
		Use:   "untaint",
		Short: "Remove Dovetail's own taint from all Nodes, when uninstalling",
		Long: `Remove the taint ` + translate.PreferOthersTaintKey + ` (PreferNoSchedule) from all Nodes. The controller sets it
on nodes that consolidation removes or fills later, and removes it by itself. Another
autoscaler would avoid these nodes forever and launch others.

Stop the controller first, because it would set the taint again. You need the right to
list and patch Nodes. All other taints, labels and annotations that Dovetail leaves are
Karpenter's, or are read by nothing else.`,
		Example: `  kubectl -n kube-system scale deployment dovetail --replicas 0
  dovetail untaint`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := restConfig(kubeconfig)
			if err != nil {
				return err
			}
			c, err := client.New(config, client.Options{Scheme: operator.Scheme()})
			if err != nil {
				return fmt.Errorf("reach the cluster at %s: %w", config.Host, err)
			}
			var nodes corev1.NodeList
			if err := c.List(cmd.Context(), &nodes); err != nil {
				return fmt.Errorf("list nodes: %w", err)
			}
			names := tainted(nodes.Items)
			d := &apply.Disrupter{Client: c}
			if err := d.RemoveSoftTaint(cmd.Context(), names); err != nil {
				return fmt.Errorf("remove taint %s: %w", translate.PreferOthersTaintKey, err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "removed taint %s from %d of %d nodes\n", translate.PreferOthersTaintKey, len(names), len(nodes.Items))
			return err
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "how to reach the cluster; empty: KUBECONFIG, ~/.kube/config or the pod's own account")
	return cmd
}

// tainted returns the names of the Nodes that have our taint.
func tainted(nodes []corev1.Node) (names []string) {
	for i := range nodes {
		if slices.ContainsFunc(nodes[i].Spec.Taints, func(t corev1.Taint) bool { return t.Key == translate.PreferOthersTaintKey }) {
			names = append(names, nodes[i].Name)
		}
	}
	return names
}
