package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/operator"
)

// pauseInput is what the flags of pause and resume say.
type pauseInput struct {
	controllerFlags
	reason string
}

func newPause() *cobra.Command {
	var input pauseInput
	cmd := &cobra.Command{
		Use:   "pause [NODEPOOL...]",
		Short: "Stop the removal and replacement of nodes until it is resumed",
		Long: `Pause disruption: of all NodePools, or of those that are named. Within seconds no node is removed
or replaced by choice any more: not for drift, expiry, repair or consolidation. Commands in progress
are cancelled, and their nodes opened again.

Nodes are still launched for pending pods. Nodes whose NodeClaim is deleted already are still drained
and terminated, and nodes that the cloud takes away are still replaced.

It writes the ConfigMap dovetail-pause in the controller's namespace, or the annotation
dovetail.sh/pause-disruption on each NodePool, so it outlasts restarts. dovetail resume takes it away.`,
		Example: `  dovetail pause --reason "incident 42"
  dovetail pause gpu spot --reason "load test until Friday"`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, pools []string) error { return pauseAll(cmd, &input, pools, true) },
	}
	input.addCluster(cmd)
	cmd.Flags().StringVar(&input.reason, "reason", "", "why; shown wherever it is shown that disruption is paused")
	return cmd
}

func newResume() *cobra.Command {
	var input pauseInput
	cmd := &cobra.Command{
		Use:   "resume [NODEPOOL...]",
		Short: "Allow the removal and replacement of nodes again",
		Long: `Resume disruption after dovetail pause: of all NodePools, or of those that are named. Without names
it deletes the ConfigMap; the annotations of single NodePools stay, and so does a pause by the
controller's setting --pause-disruption. dovetail status shows what is still paused.`,
		Example: `  dovetail resume
  dovetail resume gpu spot`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, pools []string) error { return pauseAll(cmd, &input, pools, false) },
	}
	input.addCluster(cmd)
	return cmd
}

// addCluster adds the flags by which the controller's cluster and namespace are found.
func (f *controllerFlags) addCluster(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "how to reach the cluster; empty: KUBECONFIG or ~/.kube/config")
	cmd.Flags().StringVar(&f.namespace, "controller-namespace", "", "namespace of the controller; empty: wherever the lease is")
}

// pauseAll pauses or resumes disruption, of the pools named or of all.
func pauseAll(cmd *cobra.Command, input *pauseInput, pools []string, on bool) error {
	config, err := restConfig(input.kubeconfig)
	if err != nil {
		return err
	}
	if len(pools) == 0 {
		clients, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		return pauseCluster(cmd, clients, input, on)
	}
	c, err := client.New(config, client.Options{Scheme: operator.Scheme()})
	if err != nil {
		return fmt.Errorf("reach the cluster at %s: %w", config.Host, err)
	}
	for _, name := range pools {
		if err := pausePool(cmd.Context(), c, name, input.reason, on); err != nil {
			return err
		}
		sayPaused(cmd.OutOrStdout(), "NodePool "+name, "dovetail resume "+name, on)
	}
	return nil
}

// sayPaused says what was done, and what takes it back.
func sayPaused(w io.Writer, what, resume string, on bool) {
	if on {
		fmt.Fprintf(w, "disruption of %s is paused; %s resumes it\n", what, resume)
		return
	}
	fmt.Fprintf(w, "disruption of %s is resumed\n", what)
}

// pauseCluster writes or deletes the ConfigMap.
func pauseCluster(cmd *cobra.Command, clients kubernetes.Interface, input *pauseInput, on bool) error {
	ctx, namespace := cmd.Context(), input.namespace
	if namespace == "" {
		lease, err := heldLease(ctx, clients, "")
		if errors.As(err, &noLeaderError{}) {
			return fmt.Errorf("%w; name its namespace with --controller-namespace", err)
		}
		if err != nil {
			return err
		}
		namespace = lease.Namespace
	}
	objects := clients.CoreV1().ConfigMaps(namespace)
	if !on {
		err := objects.Delete(ctx, mirror.PauseConfigMap, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			fmt.Fprintf(cmd.OutOrStdout(), "disruption was not paused: there is no ConfigMap %s/%s\n", namespace, mirror.PauseConfigMap)
			return nil
		}
		if err == nil {
			sayPaused(cmd.OutOrStdout(), "all NodePools", "", false)
		}
		return err
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: mirror.PauseConfigMap, Namespace: namespace}, Data: map[string]string{mirror.PauseReasonKey: input.reason}}
	_, err := objects.Create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = objects.Update(ctx, object, metav1.UpdateOptions{})
	}
	if err == nil {
		sayPaused(cmd.OutOrStdout(), "all NodePools", "dovetail resume", true)
	}
	return err
}

// pausePool writes the annotation on a NodePool, or takes it off.
func pausePool(ctx context.Context, c client.Client, name, reason string, on bool) error {
	var value any
	if value = strings.TrimSpace(reason); value == "" || value == "false" {
		value = karpenterv1.LabelValueTrue
	}
	if !on {
		value = nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{translate.PauseAnnotationKey: value}}})
	if err != nil {
		return err
	}
	np := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return c.Patch(ctx, np, client.RawPatch("application/merge-patch+json", patch))
}
