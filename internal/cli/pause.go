package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

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
	"github.com/dovetail-sh/dovetail/internal/view"
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
controller's setting --pause-disruption. What is still paused is said.`,
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
		if err := pauseCluster(cmd, clients, input, on); err != nil || on {
			return err
		}
	}
	c, err := client.New(config, client.Options{Scheme: operator.Scheme()})
	if err != nil {
		return fmt.Errorf("reach the cluster at %s: %w", config.Host, err)
	}
	if len(pools) == 0 {
		saySettings(cmd, input)
		return sayAnnotations(cmd, c)
	}
	for _, name := range pools {
		if err := pausePool(cmd.Context(), c, name, input.reason, on); err != nil {
			return err
		}
		sayPaused(cmd.OutOrStdout(), "NodePool "+name, "dovetail resume "+name, on)
	}
	if !on {
		saySettings(cmd, input)
		sayConfigMaps(cmd, c)
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

// askPatience bounds how long the controller may take to say whether its setting pauses disruption.
const askPatience = 5 * time.Second

// saySettings says whether the controller's setting still pauses disruption, if the controller can be asked.
func saySettings(cmd *cobra.Command, input *pauseInput) {
	ctx, cancel := context.WithTimeout(cmd.Context(), askPatience)
	defer cancel()
	var v view.Pools
	if err := (&viewFlags{controllerFlags: input.controllerFlags}).ask(ctx, "pools", nil, &v); err != nil {
		fmt.Fprintln(cmd.OutOrStdout(), "whether the controller's setting --pause-disruption still pauses it is not known: dovetail status says so")
		return
	}
	for i := range v.Pools {
		if strings.HasPrefix(v.Pools[i].Paused, operator.PausedBySetting) {
			fmt.Fprintf(cmd.OutOrStdout(), "still paused: all NodePools, as %s; it is changed with a restart\n", operator.PausedBySetting)
			return
		}
	}
}

// sayAnnotations says which NodePools are still paused by their annotation.
func sayAnnotations(cmd *cobra.Command, c client.Client) error {
	var pools karpenterv1.NodePoolList
	if err := c.List(cmd.Context(), &pools); err != nil {
		return fmt.Errorf("look for NodePools that are still paused: %w", err)
	}
	for i := range pools.Items {
		if why := translate.Paused(&pools.Items[i]); why != "" {
			fmt.Fprintf(cmd.OutOrStdout(), "still paused: NodePool %s, by %s; dovetail resume %s resumes it\n", pools.Items[i].Name, why, pools.Items[i].Name)
		}
	}
	return nil
}

// sayConfigMaps says whether all NodePools are still paused by a ConfigMap, if that can be read.
func sayConfigMaps(cmd *cobra.Command, c client.Client) {
	var objects corev1.ConfigMapList
	if err := c.List(cmd.Context(), &objects, client.MatchingFields{"metadata.name": mirror.PauseConfigMap}); err != nil {
		fmt.Fprintf(cmd.OutOrStdout(), "whether a ConfigMap %s still pauses all NodePools is not known: %v\n", mirror.PauseConfigMap, err)
		return
	}
	for i := range objects.Items {
		m := &objects.Items[i]
		fmt.Fprintf(cmd.OutOrStdout(), "still paused: all NodePools, by %s; dovetail resume resumes them\n",
			translate.PausedBy("ConfigMap "+m.Namespace+"/"+m.Name, m.Data[mirror.PauseReasonKey]))
	}
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
