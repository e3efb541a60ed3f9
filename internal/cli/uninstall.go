package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cli/doctor"
	"github.com/dovetail-sh/dovetail/internal/operator"
)

// uninstallInput is what the flags say.
type uninstallInput struct {
	kubeconfig                    string
	management, namespace         string
	removeNodes, definitions, yes bool
	timeout                       time.Duration
}

func newUninstall() *cobra.Command {
	var input uninstallInput
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove what stays in a cluster when the controller is removed",
		Long: `Print what would be left in the cluster without the controller, and what that means. With --yes
remove it, in an order in which nothing is lost.

Nodes stay, with their pods, unless --remove-nodes is given: they lose finalizer, owner and taints,
then NodeClaims, NodePools and node classes are deleted. Nobody scales or ends these nodes any
more. Stop the controller first.

With --remove-nodes the controller drains and ends all nodes, within PodDisruptionBudgets: it must
still run. Stop it afterwards.

Nodes of Cluster API keep a hook that waits for the controller. It is removed with the rest, in the
management cluster, which is the same one unless --cluster-api-kubeconfig is given.

With --definitions the definitions are deleted, too. To hand the cluster to another autoscaler of
the same API, use none of this: dovetail untaint.`,
		Example: `  dovetail uninstall
  dovetail uninstall --remove-nodes --yes && helm -n kube-system uninstall karpenter
  helm -n kube-system uninstall karpenter && dovetail uninstall --definitions --yes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return uninstall(cmd, &input) },
	}
	fs := cmd.Flags()
	fs.StringVar(&input.kubeconfig, "kubeconfig", "", "how to reach the cluster; empty: KUBECONFIG, ~/.kube/config or the pod's own account")
	fs.StringVar(&input.management, "cluster-api-kubeconfig", "", "how to reach the management cluster of Cluster API; empty: it is the same cluster")
	fs.StringVar(&input.namespace, "cluster-api-namespace", "", "the namespace of the management cluster that has the Cluster; empty: any")
	fs.BoolVar(&input.removeNodes, "remove-nodes", false, "have the controller drain and end all nodes; without it they stay")
	fs.BoolVar(&input.definitions, "definitions", false, "delete the definitions, too")
	fs.BoolVar(&input.yes, "yes", false, "remove; without it only what would be left is printed")
	fs.DurationVar(&input.timeout, "timeout", 30*time.Minute, "how long the removal may take")
	return cmd
}

func uninstall(cmd *cobra.Command, input *uninstallInput) error {
	config, err := restConfig(input.kubeconfig)
	if err != nil {
		return err
	}
	c, err := client.New(config, client.Options{Scheme: operator.Scheme()})
	if err != nil {
		return fmt.Errorf("reach the cluster at %s: %w", config.Host, err)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), input.timeout)
	defer cancel()
	management, err := managementOf(config, input.management, input.namespace)
	if err != nil {
		return err
	}
	in, err := doctor.ReadInstalled(ctx, c, management, time.Now())
	if err != nil {
		return err
	}
	if err := printLeft(cmd, in); err != nil {
		return err
	}
	if !input.yes {
		fmt.Fprintln(cmd.OutOrStdout(), "nothing was changed: add --yes to remove this")
		return nil
	}
	if in.LacksManagement() {
		return errors.New("there are ClusterAPINodeClasses, and this cluster is not their management cluster: give --cluster-api-kubeconfig, so that hooks can be removed there")
	}
	say := func(format string, args ...any) { fmt.Fprintf(cmd.OutOrStdout(), format+"\n", args...) }
	if input.removeNodes {
		if len(in.Holders) == 0 && len(in.Claims) > 0 {
			return errors.New("--remove-nodes: no controller runs that could drain and end the nodes; start it again, or keep the nodes")
		}
		err = in.Remove(ctx, c, say)
	} else {
		if len(in.Holders) > 0 {
			return fmt.Errorf("%s: stop it first (helm uninstall karpenter, or kubectl scale its Deployment to 0); one that was killed holds its lease for 15 seconds", strings.Join(in.Holders, "; "))
		}
		if ending := in.Ending(); len(ending) > 0 {
			return fmt.Errorf("%s is being ended (%d in all), and its instance would be left: start the controller again until it is gone", ending[0], len(ending))
		}
		err = in.Orphan(ctx, c, say)
	}
	if err == nil {
		err = in.DeletePauses(ctx, c, say)
	}
	if err != nil || !input.definitions {
		return err
	}
	return in.DeleteDefinitions(ctx, c, say)
}

// managementOf returns the management cluster of Cluster API that flags name; own is the cluster itself.
func managementOf(own *rest.Config, kubeconfig, namespace string) (doctor.Management, error) {
	config := own
	if kubeconfig != "" {
		var err error
		if config, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
			return doctor.Management{}, fmt.Errorf("--cluster-api-kubeconfig: %w", err)
		}
	}
	c, err := client.NewWithWatch(config, client.Options{})
	if err != nil {
		return doctor.Management{}, fmt.Errorf("reach the management cluster at %s: %w", config.Host, err)
	}
	return doctor.Management{Client: c, Namespace: namespace}, nil
}

// printLeft prints what there is, and what becomes of it without the controller.
func printLeft(cmd *cobra.Command, in *doctor.Installed) error {
	rows := in.Left()
	if len(rows) == 0 {
		fmt.Fprintln(cmd.OutOrStdout(), "nothing is left in the cluster")
		return nil
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WHAT\tCOUNT\tWITHOUT THE CONTROLLER THEY")
	for _, row := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\n", row[0], row[1], row[2])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i := range in.Webhooks {
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", in.Webhooks[i].Check, in.Webhooks[i].Remedy)
	}
	return nil
}
