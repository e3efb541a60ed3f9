package nodepool

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// Controllers are the six loops. Their fields are set once, before Register.
type Controllers struct {
	Client     client.Client
	Cloud      cloud.Provider
	Vocabulary translate.Vocabulary
	// Types returns the instance types of a class as last read, for their prices.
	Types func(cloud.ClassRef) ([]*catalog.Type, error)
	// NodeVersion counts the changes of NodeClaims and Nodes of a pool: capacity is not counted again
	// while that stays the same. Nil: it is not known.
	NodeVersion func(pool string) uint64
	// Synced reports whether the caches are synced; capacity is not counted before. Nil: they are.
	Synced  func() bool
	Now     func() time.Time
	Events  *observe.Recorder
	Metrics *observe.Metrics
	Log     *slog.Logger
	// StaticCapacity: the gate is on, so that a pool with replicas is valid.
	StaticCapacity bool

	mu     sync.Mutex
	health map[string]*launches // guarded by mu; by pool name
	// observeAt brings a pool to the health loop. It is nil before that has started.
	observeAt func(pool string)         // guarded by mu
	reported  map[gaugeOf]quantity.List // guarded by mu; what the gauges show
	counts    map[string]count          // guarded by mu; by pool name
	warned    map[string]string         // guarded by mu; by pool name, what the log said last of its node class
}

// launches is what is remembered of one pool's launches. After a restart it is read from the
// pool's condition.
type launches struct {
	pool            types.UID
	since           generations
	health          lifecycle.Health
	reason, message string // of the last failure
}

// generations are those of a pool and its class: what was before them is forgotten, once.
type generations struct{ pool, class int64 }

// count is when a pool was counted, and what was known then.
type count struct {
	at      time.Time
	nodes   uint64
	pool    string // its resource version
	written string // and that after what was counted was written, which is no reason to count again
	shares  []share
}

// gaugeOf is one pool's part of one metric.
type gaugeOf struct {
	metric *prometheus.GaugeVec
	pool   string
}

// classKind returns the kind of the pool's class, if it is one of our provider's.
func (c *Controllers) classKind(np *karpenterv1.NodePool) (kind schema.GroupVersionKind, ours bool) {
	ref := np.Spec.Template.Spec.NodeClassRef
	if ref == nil {
		return kind, false
	}
	kinds := c.Cloud.ClassKinds()
	i := slices.IndexFunc(kinds, func(k schema.GroupVersionKind) bool { return k.Group == ref.Group && k.Kind == ref.Kind })
	if i < 0 {
		return kind, false
	}
	return kinds[i], true
}

// class returns the pool's node class; nil if there is none. It is read from the API
// server itself, which has it in whatever version and with whatever fields the kind has.
func (c *Controllers) class(ctx context.Context, np *karpenterv1.NodePool) (*unstructured.Unstructured, error) {
	kind, _ := c.classKind(np)
	class := &unstructured.Unstructured{}
	class.SetGroupVersionKind(kind)
	name := np.Spec.Template.Spec.NodeClassRef.Name
	err := c.Client.Get(ctx, client.ObjectKey{Name: name}, class)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get node class %s/%s: %w", kind.Kind, name, err)
	}
	return class, nil
}
