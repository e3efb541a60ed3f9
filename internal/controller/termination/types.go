// Package termination is the loop that drains and removes Nodes: it reads the Node and its
// pods, lets the core decide the next step of the drain, has it performed, and reports it.
// The pods that may leave are handed to an eviction queue with workers of its own.
package termination

import (
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

// Controller is the loop. Its fields are set once, before Register.
type Controller struct {
	Client  client.Client
	Cloud   cloud.Provider
	Now     func() time.Time
	Events  *observe.Recorder
	Metrics *observe.Metrics
	Log     *slog.Logger

	evictor *apply.Evictor
	endings endings
}

// reconciliation is one reconcile of one Node. Its objects include the reconciliation's own
// writes, which the cache may not have seen yet.
type reconciliation struct {
	*Controller
	node  *corev1.Node
	claim *karpenterv1.NodeClaim // nil: none
	// budgets are the PodDisruptionBudgets of each namespace that was read.
	budgets map[string][]mirror.PDB
	// instance is what the cloud said of the Node's instance in this reconcile.
	instance lifecycle.Instance
}
