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

	"github.com/dovetail-sh/dovetail/internal/decision/simulate"
	"github.com/dovetail-sh/dovetail/internal/operator"
)

func newSnapshot() *cobra.Command {
	var kubeconfig, file string
	var redact bool
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Write the objects that decide about launches to a file, for simulate",
		Long: `Read from a cluster the objects that affect what is launched, and write them as a list:
NodePools, NodeClaims, Nodes, Pods, DaemonSets, PodDisruptionBudgets, Namespaces, those of
volumes, and CapacityBuffers with the workloads that they name. The cluster is only read.

Images, commands, environment, secrets, configuration and annotations that no autoscaler
reads are left out. Names and labels are in it. With --redact those that people chose are
replaced, so that the file can be given to others: equal names stay equal, and the same is
decided about them.

  dovetail simulate -f FILE

says what would be launched for its pending pods.`,
		Example: `  dovetail snapshot --file cluster.json
  dovetail snapshot --redact --kubeconfig ~/.kube/config | gzip > cluster.json.gz`,
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
			items, err := written(objects, redact)
			if err != nil {
				return err
			}
			if file == "" {
				return writeList(cmd.OutOrStdout(), items)
			}
			f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
			if err != nil {
				return fmt.Errorf("--file: %w", err)
			}
			if err := writeList(f, items); err != nil {
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
	cmd.Flags().BoolVar(&redact, "redact", false, "replace the names and labels that people chose")
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

// written returns the objects as they are to be written, which say of what kind they are.
func written(objects []client.Object, redact bool) ([]any, error) {
	items := make([]any, len(objects))
	for i, o := range objects {
		kind, err := apiutil.GVKForObject(o, operator.Scheme())
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", o.GetName(), err)
		}
		o.GetObjectKind().SetGroupVersionKind(kind)
		items[i] = o
	}
	if !redact {
		return items, nil
	}
	trees, err := simulate.Redact(objects)
	for i := range trees {
		items[i] = trees[i]
	}
	return items, err
}

// writeList writes a list, an object a line.
func writeList(w io.Writer, list []any) error {
	out := bufio.NewWriter(w)
	fmt.Fprint(out, `{"apiVersion":"v1","kind":"List","items":[`)
	for i, o := range list {
		b, err := json.Marshal(o)
		if err != nil {
			return fmt.Errorf("write object %d: %w", i, err)
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
