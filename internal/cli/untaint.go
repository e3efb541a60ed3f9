package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
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

Nodes that have joined and do not take pods yet get the effect NoExecute of their taint
` + karpenterv1.UnregisteredTaintKey + ` back, with which Karpenter registers them.

Stop the controller first, because it would set the taints again. You need the right to
get, list and patch Nodes. All other taints, labels and annotations that Dovetail leaves are
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
			if err := handBack(cmd, c, nodes.Items); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "removed taint %s from %d of %d nodes\n", translate.PreferOthersTaintKey, len(names), len(nodes.Items))
			return err
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "how to reach the cluster; empty: KUBECONFIG, ~/.kube/config or the pod's own account")
	return cmd
}

// handBack lets Karpenter register the Nodes that are not open to pods yet.
func handBack(cmd *cobra.Command, c client.Client, nodes []corev1.Node) error {
	n := 0
	for i := range nodes {
		adopted := func(t corev1.Taint) bool {
			return translate.IsUnregisteredTaint(t) && t.Effect != corev1.TaintEffectNoExecute
		}
		if !slices.ContainsFunc(nodes[i].Spec.Taints, adopted) {
			continue
		}
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error { // its kubelet writes at the same time
			if err := c.Get(cmd.Context(), client.ObjectKeyFromObject(&nodes[i]), &nodes[i]); err != nil {
				return err
			}
			return apply.HandBackNode(cmd.Context(), c, &nodes[i])
		})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("set taint %s of node %s: %w", karpenterv1.UnregisteredTaintKey, nodes[i].Name, err)
		}
		n++
	}
	if n == 0 {
		return nil
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "set taint %s to NoExecute on %d of %d nodes\n", karpenterv1.UnregisteredTaintKey, n, len(nodes))
	return err
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
