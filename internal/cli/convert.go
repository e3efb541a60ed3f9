package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/convert"
)

// convertInput is what the flags say.
type convertInput struct {
	files                []string
	provider, kubeconfig string
	scan                 bool
	options              convert.Options
}

func newConvert() *cobra.Command {
	var input convertInput
	cmd := &cobra.Command{
		Use:   "convert",
		Short: "Rewrite manifests of older versions of Karpenter's API as v1",
		Long: `Read NodePools, NodeClaims and EC2NodeClasses of v1beta1, Provisioners and Machines of
v1alpha5 and AWSNodeTemplates of v1alpha1, and write what they are in v1. Objects of other
kinds are written as they are, but for the labels and annotations of older versions that
they name. Comments are not kept.

What was guessed, was dropped, or means something else now is said on standard error, a
line each. Read them: docs/reference/conversion.md has the whole table.

With --scan, nothing is written but the list of places where pods, workloads and Nodes name
labels or annotations of older versions: of the files, or without -f of the cluster. Pods
that select karpenter.sh/provisioner-name fit on no node any more.

The exit status is 0 when every object was converted, 3 when one cannot be, which is left
out then, 2 when the input is wrong.`,
		Example: `  dovetail convert -f provisioners.yaml > nodepools.yaml
  dovetail convert -f manifests/ --node-role KarpenterNodeRole-demo > v1.yaml
  kubectl get nodepools.v1beta1.karpenter.sh -o yaml | dovetail convert -f - | kubectl apply -f -
  dovetail convert --scan`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return input.run(cmd) },
	}
	fs := cmd.Flags()
	fs.StringSliceVarP(&input.files, "filename", "f", nil, "manifests: a file, a directory with all that is below it, or - for standard input")
	fs.BoolVar(&input.options.IgnoreDefaults, "ignore-defaults", false, "do not add the requirements that every Provisioner had by default")
	fs.StringVar(&input.options.NodeRole, "node-role", "", "IAM role of the nodes of AWSNodeTemplates that name no instance profile")
	fs.StringVar(&input.provider, "cloud-provider", "aws", "aws or kwok: whose node class a reference without a kind means")
	fs.BoolVar(&input.scan, "scan", false, "only list what names labels and annotations of older versions")
	fs.StringVar(&input.kubeconfig, "kubeconfig", "", "with --scan and without -f: how to reach the cluster; empty: KUBECONFIG, ~/.kube/config or the pod's own account")
	return cmd
}

func (in *convertInput) run(cmd *cobra.Command) error {
	kind, ok := convert.ClassKind(in.provider)
	if !ok {
		return wrongUse(cmd, fmt.Errorf("--cloud-provider is %q, must be aws or kwok", in.provider))
	}
	in.options.Class = kind
	if len(in.files) == 0 && in.scan {
		return scanCluster(cmd.Context(), in.kubeconfig, cmd.OutOrStdout())
	}
	if len(in.files) == 0 {
		return wrongUse(cmd, errors.New("nothing to convert: give -f FILE, or -f - for standard input"))
	}
	objects, err := readObjects(in.files, cmd.InOrStdin())
	if err != nil {
		return &statusError{error: err, status: statusBadInput}
	}
	if in.scan {
		return report(cmd.OutOrStdout(), scanned(objects))
	}
	result, err := convert.All(objects, in.options)
	if err != nil {
		return &statusError{error: err, status: statusBadInput}
	}
	if err := report(cmd.ErrOrStderr(), result.Notes); err != nil {
		return err
	}
	for _, o := range result.Objects {
		text, err := yaml.Marshal(o.Content)
		if err != nil {
			return fmt.Errorf("write %s: %w", o.String(), err)
		}
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "---\n%s", text); err != nil {
			return err
		}
	}
	if result.Has(convert.Refused) {
		return &statusError{status: statusRefused}
	}
	return nil
}

func report(w io.Writer, notes []convert.Note) error {
	for _, n := range notes {
		if _, err := fmt.Fprintln(w, n); err != nil {
			return err
		}
	}
	return nil
}

func scanned(objects []convert.Object) (notes []convert.Note) {
	for i := range objects {
		notes = append(notes, convert.Scan(&objects[i])...)
	}
	return notes
}

// readObjects reads the objects of all files that paths name.
func readObjects(paths []string, stdin io.Reader) ([]convert.Object, error) {
	var all []convert.Object
	add := func(name string, content []byte, err error) error {
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		objects, err := convert.Read(name, content)
		all = append(all, objects...)
		return err
	}
	for _, root := range paths {
		if root == "-" {
			content, err := io.ReadAll(stdin)
			if err := add("standard input", content, err); err != nil {
				return nil, err
			}
			continue
		}
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return fmt.Errorf("read manifests: %w", err)
			}
			if entry.IsDir() || path != root && !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
				return nil
			}
			content, err := os.ReadFile(path)
			return add(path, content, err)
		})
		if err != nil {
			return nil, err
		}
	}
	if len(all) == 0 {
		return nil, errors.New("no objects there")
	}
	return all, nil
}

// scanPage is how many objects are asked for at once.
const scanPage = 500

// scanCluster lists what of a cluster names labels and annotations of older versions. What others
// make, as pods of a ReplicaSet, is left out.
func scanCluster(ctx context.Context, kubeconfig string, w io.Writer) error {
	config, err := restConfig(kubeconfig)
	if err != nil {
		return err
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		return fmt.Errorf("reach the cluster at %s: %w", config.Host, err)
	}
	for _, kind := range []schema.GroupVersionKind{
		{Version: "v1", Kind: "Pod"},
		{Version: "v1", Kind: "Node"},
		{Group: "apps", Version: "v1", Kind: "Deployment"},
		{Group: "apps", Version: "v1", Kind: "StatefulSet"},
		{Group: "apps", Version: "v1", Kind: "DaemonSet"},
		{Group: "apps", Version: "v1", Kind: "ReplicaSet"},
		{Group: "batch", Version: "v1", Kind: "Job"},
		{Group: "batch", Version: "v1", Kind: "CronJob"},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		for next := ""; ; {
			if err := c.List(ctx, list, client.Limit(scanPage), client.Continue(next)); err != nil {
				return fmt.Errorf("list %s: %w", kind.Kind, err)
			}
			for i := range list.Items {
				if metav1.GetControllerOf(&list.Items[i]) != nil && kind.Kind != "Node" {
					continue
				}
				list.Items[i].SetManagedFields(nil)
				if err := report(w, convert.Scan(&convert.Object{Content: list.Items[i].Object})); err != nil {
					return err
				}
			}
			if next = list.GetContinue(); next == "" {
				break
			}
		}
	}
	return nil
}
