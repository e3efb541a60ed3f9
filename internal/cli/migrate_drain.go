package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cli/nodegroups"
	"github.com/dovetail-sh/dovetail/internal/operator"
)

// drainInput is what the flags say.
type drainInput struct {
	kubeconfig, cluster string
	only                []string
	yes                 bool
	timeout             time.Duration
}

func newMigrateDrain() *cobra.Command {
	var input drainInput
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Drain the nodes of node groups, group by group and node by node",
		Long: `Print what a drain of the node groups would do, in the order that dovetail migrate node-groups
proposes. With --yes do it: cordon the nodes of a group, then evict the pods of one node after the
other. The eviction API is asked, so PodDisruptionBudgets hold.

Before each node all pods that came meanwhile must run, and all NodeClaims must be initialized. The
drain stops at the first node that takes longer than --timeout. Run it again to go on: what is
cordoned and empty is done. Nodes whose pods must not be evicted are left as they are, and named:
pods with the annotation karpenter.sh/do-not-disrupt or safe-to-evict=false, and pods without a
controller that makes them again.

No instance is ended. The command that ends one is printed for each node of AWS. kubectl uncordon
takes a node back.`,
		Example: `  dovetail migrate drain
  dovetail migrate drain --group web --yes
  dovetail migrate drain --cluster-name demo --yes --timeout 30m`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return migrateDrain(cmd, &input) },
	}
	fs := cmd.Flags()
	fs.StringVar(&input.kubeconfig, "kubeconfig", "", "how to reach the cluster; empty: KUBECONFIG, ~/.kube/config or the pod's own account")
	fs.StringVar(&input.cluster, "cluster-name", "", "name of the EKS cluster, to know the nodes of Auto Scaling groups that no label names; empty: AWS is not asked")
	fs.StringSliceVar(&input.only, "group", nil, "names of the groups; empty: all")
	fs.BoolVar(&input.yes, "yes", false, "drain; without it only what would be done is printed")
	fs.DurationVar(&input.timeout, "timeout", 15*time.Minute, "how long one node may take until its pods run elsewhere")
	return cmd
}

func migrateDrain(cmd *cobra.Command, input *drainInput) error {
	if input.timeout <= 0 {
		return wrongUse(cmd, fmt.Errorf("--timeout %s: must be positive", input.timeout))
	}
	config, err := restConfig(input.kubeconfig)
	if err != nil {
		return err
	}
	c, err := client.New(config, client.Options{Scheme: operator.Scheme()})
	if err != nil {
		return fmt.Errorf("reach the cluster at %s: %w", config.Host, err)
	}
	drains, err := drainsOf(cmd, c, input)
	if err != nil {
		return err
	}
	todo := 0
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "GROUP\tNODE\tPODS\tSTATE")
	for i := range drains {
		d := &drains[i]
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", d.Group, d.Node, d.Pods, d.State())
		if !d.Drained() && len(d.Held) == 0 {
			todo++
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i := range drains {
		for _, held := range drains[i].Held {
			fmt.Fprintf(cmd.OutOrStdout(), "%s is kept by %s\n", drains[i].Node, held)
		}
	}
	noRoom := openPool(cmd, c)
	if !input.yes {
		fmt.Fprintf(cmd.OutOrStdout(), "nothing was changed: add --yes to drain %d nodes\n", todo)
		if noRoom != nil {
			fmt.Fprintf(cmd.OutOrStdout(), "before that: %s\n", noRoom)
		}
		return nil
	}
	if noRoom != nil {
		return noRoom
	}
	d := &nodegroups.Drainer{
		Client: c, Now: time.Now, Patience: input.timeout,
		Say: func(format string, args ...any) { fmt.Fprintf(cmd.OutOrStdout(), format+"\n", args...) },
	}
	return d.Drain(cmd.Context(), drains)
}

// drainsOf returns the nodes of the groups that were named, in the order in which to drain them.
func drainsOf(cmd *cobra.Command, c client.Client, input *drainInput) ([]nodegroups.NodeDrain, error) {
	known, err := groupsInAWS(cmd.Context(), input.cluster)
	if err != nil {
		return nil, err
	}
	members := nodegroups.MembershipOf(known)
	var nodes corev1.NodeList
	var pods corev1.PodList
	var budgets policyv1.PodDisruptionBudgetList
	for kind, list := range map[string]client.ObjectList{"Nodes": &nodes, "Pods": &pods, "PodDisruptionBudgets": &budgets} {
		if err := c.List(cmd.Context(), list); err != nil {
			return nil, fmt.Errorf("read %s: %w", kind, err)
		}
	}
	var objects []client.Object
	for i := range nodes.Items {
		objects = append(objects, &nodes.Items[i])
	}
	for i := range pods.Items {
		objects = append(objects, &pods.Items[i])
	}
	for i := range budgets.Items {
		objects = append(objects, &budgets.Items[i])
	}
	order := nodegroups.Groups(objects, members, nil, time.Now())
	var names []string
	for i := range order {
		names = append(names, order[i].Name)
	}
	if len(names) == 0 {
		return nil, errors.New("no Node is of a node group, so there is nothing to drain; with --cluster-name NAME the nodes of Auto Scaling groups without labels are known")
	}
	for _, name := range input.only {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("--group %s: no Node is of such a group; there are %s", name, strings.Join(names, ", "))
		}
	}
	if len(input.only) > 0 {
		order = slices.DeleteFunc(order, func(g nodegroups.Group) bool { return !slices.Contains(input.only, g.Name) })
	}
	return nodegroups.Drains(order, nodes.Items, pods.Items, members, time.Now()), nil
}

// openPool returns an error unless at least one NodePool can launch nodes for the pods that are evicted.
func openPool(cmd *cobra.Command, c client.Client) error {
	var pools karpenterv1.NodePoolList
	if err := c.List(cmd.Context(), &pools); err != nil {
		return fmt.Errorf("read NodePools: %w", err)
	}
	for i := range pools.Items {
		np := &pools.Items[i]
		cpu, limited := np.Spec.Limits[corev1.ResourceCPU]
		if np.DeletionTimestamp == nil && np.Spec.Replicas == nil && meta.IsStatusConditionTrue(np.Status.Conditions, karpenterv1.ConditionTypeReady) && (!limited || !cpu.IsZero()) {
			return nil
		}
	}
	return errors.New("no NodePool can launch nodes for the evicted pods: none is Ready with a limits.cpu other than 0; raise one (docs/migrate.md, step 4)")
}
