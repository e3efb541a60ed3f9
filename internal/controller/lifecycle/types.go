// Package lifecycle is the loop that sees each claim through its life: it reads the claim and
// what belongs to it, lets the core decide the next step, has it performed, and reports it.
//
// It never waits for the cloud: it sends launch requests, and a claim is reconciled again
// when its answer has come.
package lifecycle

import (
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	core "github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

// turnRetry is when to ask again whether a Node may be opened, in case OnTurn's function is not
// called.
const turnRetry = 5 * time.Second

// pausedRetry is when to look again at a claim whose time is over while disruption of its pool is paused.
const pausedRetry = time.Minute

// Health gets how the launches and registrations of pools end.
type Health interface {
	// Record is called when a claim's Node has registered, or will not.
	Record(ctx context.Context, claim *karpenterv1.NodeClaim, registered bool)
}

// Opener says when a Node that has joined may be opened to pods.
type Opener interface {
	// MayOpen reports whether it may now. If not, OnTurn's function is called with the claim later.
	MayOpen(claim string, node *corev1.Node) bool
	// OnTurn is called once, before anything is asked.
	OnTurn(open func(claim string))
}

// Overlays say what NodeOverlays make of instance types.
type Overlays interface {
	// Overlaid returns the types of a pool as NodeOverlays have them, and whether they set prices.
	Overlaid(pool string, types []*catalog.Type) (overlaid []*catalog.Type, repriced bool)
	// OverlaidCapacity returns the resources that NodeOverlays set for a type of a pool.
	OverlaidCapacity(pool, instanceType string) quantity.List
}

// Controller is the loop. Its fields are set once, before Register.
type Controller struct {
	Client client.Client
	// Launches writes what was launched.
	Launches client.Client
	Cloud    cloud.Provider
	Now      func() time.Time
	Events   *observe.Recorder
	Metrics  *observe.Metrics
	Log      *slog.Logger
	// Traces may be nil.
	Traces *observe.Traces
	// StaticCapacity: claims of pools with replicas expire; else they are kept, for nothing would
	// replace them.
	StaticCapacity bool
	// Paused returns why disruption of a pool is paused; empty: it is not. Its claims do not expire then. May be nil.
	Paused func(pool string) string
	// Overlays may be nil: there are none.
	Overlays Overlays
	// Published returns the drivers that have published all their devices on a node; nil: devices are
	// not watched, and not waited for.
	Published func(node string) []string
	// Health may be nil.
	Health Health
	// Opener may be nil: then every Node is opened as soon as it has joined.
	Opener Opener
	// Short is called with the offerings that had no capacity; may be nil.
	Short func(places []catalog.Place, keep time.Duration)
	// Available leaves out the offerings that are known to be unavailable. It is asked for launches that may
	// fail late: a cloud that refuses at once goes on to the next offering by itself. May be nil.
	Available func(types []*catalog.Type) []*catalog.Type
	// Reserved is called with the class of a launch from a reservation; may be nil.
	Reserved func(class cloud.ClassRef)
	// Refused is called with each answer of the cloud's that there is no instance; may be nil.
	Refused func(claim string, at time.Time, answer core.Answer)
	// Planned returns the pods without a node that are planned for a claim; may be nil.
	Planned func(claim string) []*corev1.Pod
	// Patience returns how long launches of a class may take; nil: as long as those of most clouds.
	Patience func(class cloud.ClassRef) core.Patience
	// Later is that of apply.LaunchRequests; nil: a goroutine of its own.
	Later func(pause time.Duration, do func())

	launches *apply.LaunchRequests
	follower *apply.LaunchFollower
}

// reconciliation is one reconcile of one claim. Its objects include the reconciliation's own
// writes, which the cache may not have seen yet.
type reconciliation struct {
	*Controller
	claim *karpenterv1.NodeClaim
	// nodes are those with the provider ID listed.
	nodes  []corev1.Node
	listed string
	// instance is what the cloud said of the claim's instance in this reconcile.
	instance core.Instance
}
