// Package kubelets brings the Nodes of booted instances into a real API server. KWOK plays
// their kubelets from there on; when an instance is gone, its Node is deleted, as the cloud
// controller manager does it. An instance that was rebooted keeps its Node: it gets the new boot ID,
// is not ready until KWOK says that it is, and so are its pods.
package kubelets

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// retryAfter is the pause after the API server refused a write.
const retryAfter = time.Second

// errStarting says that a Node is there and its kubelet is not ready yet.
var errStarting = errors.New("the kubelet is not ready yet")

// KWOK looks after Nodes that have this annotation or this label; it is configured so.
const playedKey, playedValue = "kwok.x-k8s.io/node", "fake"

// Nodes is an awssim.Registrar. Make it with New, and call Run.
type Nodes struct {
	client client.Client
	log    *slog.Logger

	mu   sync.Mutex
	due  map[string]*corev1.Node // by name; nil: the instance is gone
	wake chan struct{}
}

// New returns a registrar that writes with c.
func New(c client.Client, log *slog.Logger) *Nodes {
	return &Nodes{client: c, log: log, due: map[string]*corev1.Node{}, wake: make(chan struct{}, 1)}
}

// Join has the Node created, soon, or rebooted if it is there with another boot ID.
func (n *Nodes) Join(node *corev1.Node) { n.put(node.Name, node) }

// Leave has the Node deleted, soon.
func (n *Nodes) Leave(name string) { n.put(name, nil) }

// put notes that a Node is due to be created, or to be deleted if node is nil. It replaces what
// was due for the same name before.
func (n *Nodes) put(name string, node *corev1.Node) {
	n.mu.Lock()
	n.due[name] = node
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// Run creates and deletes the Nodes that are due until ctx ends. What fails is tried again.
func (n *Nodes) Run(ctx context.Context) {
	retry := time.NewTicker(retryAfter)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.wake:
		case <-retry.C:
		}
		n.mu.Lock()
		due := n.due
		n.due = map[string]*corev1.Node{}
		n.mu.Unlock()
		for _, name := range slices.Sorted(maps.Keys(due)) {
			err := n.fulfil(ctx, name, due[name])
			if err != nil {
				n.putBack(name, due[name])
			}
			if err != nil && !errors.Is(err, errStarting) {
				n.log.Warn("node was refused by the API server", "node", name, "error", err)
			}
		}
	}
}

// putBack makes a Node due again after a failure, unless something newer is due for its name.
func (n *Nodes) putBack(name string, node *corev1.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, newer := n.due[name]; !newer {
		n.due[name] = node
	}
}

func (n *Nodes) fulfil(ctx context.Context, name string, node *corev1.Node) error {
	if node == nil {
		return client.IgnoreNotFound(n.client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	node = node.DeepCopy()
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, playedKey, playedValue)
	metav1.SetMetaDataLabel(&node.ObjectMeta, playedKey, playedValue)
	err := n.client.Create(ctx, node)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	old := &corev1.Node{}
	if err := n.client.Get(ctx, client.ObjectKey{Name: name}, old); err != nil {
		return err
	}
	if old.Spec.ProviderID == node.Spec.ProviderID {
		return n.reboot(ctx, old, node.Status.NodeInfo.BootID)
	}
	// Another instance had the address before.
	if err := client.IgnoreNotFound(n.client.Delete(ctx, old)); err != nil {
		return err
	}
	return fmt.Errorf("node %s is still that of %s", name, old.Spec.ProviderID)
}

// reboot has the Node of a rebooted instance say so, and is done when its kubelet and its pods are
// ready again.
func (n *Nodes) reboot(ctx context.Context, node *corev1.Node, bootID string) error {
	at := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	if node.Status.NodeInfo.BootID == bootID {
		if at < 0 || node.Status.Conditions[at].Status != corev1.ConditionTrue {
			return errStarting
		}
		return n.restart(ctx, node.Name)
	}
	before := node.DeepCopy()
	node.Status.NodeInfo.BootID = bootID
	if at >= 0 {
		ready := &node.Status.Conditions[at]
		ready.Status, ready.Reason, ready.Message = corev1.ConditionFalse, "KubeletNotReady", "container runtime network not ready"
		ready.LastTransitionTime = metav1.Now()
	}
	if err := n.client.Status().Patch(ctx, node, client.StrategicMergeFrom(before)); err != nil {
		return err
	}
	return errStarting
}

// restart makes those pods of a Node ready that are not because it was not, though their containers
// are: KWOK does not.
func (n *Nodes) restart(ctx context.Context, name string) error {
	var pods corev1.PodList
	if err := n.client.List(ctx, &pods, client.MatchingFields{"spec.nodeName": name}); err != nil {
		return err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		has := func(kind corev1.PodConditionType, status corev1.ConditionStatus) int {
			return slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind && c.Status == status })
		}
		at := has(corev1.PodReady, corev1.ConditionFalse)
		if at < 0 || has(corev1.ContainersReady, corev1.ConditionTrue) < 0 {
			continue
		}
		before := pod.DeepCopy()
		ready := &pod.Status.Conditions[at]
		ready.Status, ready.LastTransitionTime = corev1.ConditionTrue, metav1.Now()
		if err := n.client.Status().Patch(ctx, pod, client.StrategicMergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}
