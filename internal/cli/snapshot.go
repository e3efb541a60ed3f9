package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/dovetail-sh/dovetail/internal/operator"
	"github.com/dovetail-sh/dovetail/internal/simulate"
)

func newSnapshot() *cobra.Command {
	var kubeconfig, file string
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Write what decides about launches in a cluster to a file, for simulate",
		Long: `Read from a cluster what has a say in what is launched, and write it as a list of
Kubernetes objects: NodePools, NodeClaims, Nodes, Pods, DaemonSets, PodDisruptionBudgets,
Namespaces, and what volumes are made of. The cluster is only read.

Left out is what has no say: images, commands, environment, secrets, configuration, and
annotations that no autoscaler reads. Names and labels are in it.

  dovetail simulate -f FILE

answers what would be launched for the pods that wait in it.`,
		Example: `  dovetail snapshot --file cluster.json
  dovetail snapshot --kubeconfig ~/.kube/config | gzip > cluster.json.gz`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			reader, _, err := clusterReader(kubeconfig)
			if err != nil {
				return err
			}
			objects, err := simulate.Objects(cmd.Context(), reader)
			if err != nil {
				return err
			}
			if file == "" {
				return writeObjects(cmd.OutOrStdout(), objects)
			}
			f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
			if err != nil {
				return fmt.Errorf("--file: %w", err)
			}
			if err := writeObjects(f, objects); err != nil {
				return err
			}
			if err := f.Close(); err != nil {
				return fmt.Errorf("--file: %w", err)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "wrote %d objects to %s\n", len(objects), file)
			return nil
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "how to reach the cluster; empty: KUBECONFIG, ~/.kube/config or the pod's own account")
	cmd.Flags().StringVar(&file, "file", "", "where to write; empty: standard output")
	return cmd
}

// clusterReader returns a reader of the cluster, and the address of its API server.
func clusterReader(kubeconfig string) (client.Reader, string, error) {
	config, err := restConfig(kubeconfig)
	if err != nil {
		return nil, "", err
	}
	reader, err := client.New(config, client.Options{Scheme: operator.Scheme()})
	if err != nil {
		return nil, "", fmt.Errorf("reach the cluster at %s: %w", config.Host, err)
	}
	return reader, config.Host, nil
}

// writeObjects writes a list, an object a line.
func writeObjects(w io.Writer, objects []client.Object) error {
	out := bufio.NewWriter(w)
	fmt.Fprint(out, `{"apiVersion":"v1","kind":"List","items":[`)
	for i, o := range objects {
		kind, err := apiutil.GVKForObject(o, operator.Scheme())
		if err != nil {
			return fmt.Errorf("write %s: %w", o.GetName(), err)
		}
		o.GetObjectKind().SetGroupVersionKind(kind)
		b, err := json.Marshal(o)
		if err != nil {
			return fmt.Errorf("write %s %s: %w", kind.Kind, o.GetName(), err)
		}
		if i > 0 {
			fmt.Fprint(out, ",")
		}
		fmt.Fprintf(out, "\n%s", b)
	}
	fmt.Fprint(out, "\n]}\n")
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write the list: %w", err)
	}
	return nil
}
