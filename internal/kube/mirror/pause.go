package mirror

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	// PauseConfigMap is the name of the ConfigMap that pauses disruption of all NodePools, in the
	// controller's namespace, for as long as it exists.
	PauseConfigMap = "dovetail-pause"
	// PauseReasonKey is the key of the ConfigMap that says why.
	PauseReasonKey = "reason"
)

// pause is what pauses disruption of all NodePools.
type pause struct {
	// setting is why the operator's settings do; object why the ConfigMap does. Empty: it does not.
	setting, object string
}

func (p *pause) why() string { return cmp.Or(p.object, p.setting) }

// FeedPause subscribes the store to the ConfigMap that pauses disruption, which the cache must be limited to,
// and returns a function that reports whether it is known if there is one.
func (s *Store) FeedPause(ctx context.Context, c cache.Cache, of types.NamespacedName) (synced func() bool, err error) {
	return subscribe(ctx, s, c, pauseKind(s, of))
}

func pauseKind(s *Store, of types.NamespacedName) watched {
	set := func(m *corev1.ConfigMap, why string) {
		if m.Namespace == of.Namespace && m.Name == of.Name {
			s.pools.paused.object = why
		}
	}
	return kindOf(s, &corev1.ConfigMap{},
		func(m *corev1.ConfigMap) {
			set(m, translate.PausedBy("ConfigMap "+m.Namespace+"/"+m.Name, m.Data[PauseReasonKey]))
		},
		func(m *corev1.ConfigMap) { set(m, "") })
}

// Paused returns why disruption of a NodePool is paused; empty: it is not.
func (p *Pools) Paused(pool string) string {
	s := p.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if np := s.pools.objects[pool]; np != nil {
		return cmp.Or(s.pools.paused.why(), translate.Paused(np))
	}
	return s.pools.paused.why()
}
