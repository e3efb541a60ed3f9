// Package kubelets brings the Nodes of booted instances into a real API server. KWOK plays
// their kubelets from there on; when an instance is gone, its Node is deleted, as the cloud
// controller manager does it.
package kubelets

import (
	"context"
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

// Join has the Node created, soon.
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
			if err := n.fulfil(ctx, name, due[name]); err != nil {
				n.log.Warn("node was refused by the API server", "node", name, "error", err)
				n.putBack(name, due[name])
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
		return nil
	}
	// Another instance had the address before.
	if err := client.IgnoreNotFound(n.client.Delete(ctx, old)); err != nil {
		return err
	}
	return fmt.Errorf("node %s is still that of %s", name, old.Spec.ProviderID)
}
