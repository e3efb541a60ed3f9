package mirror

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// gangs are the PodGroups, and the pods that say they are of one.
type gangs struct {
	groups map[types.NamespacedName]podGroup
	pods   map[types.NamespacedName]map[types.UID]*pod
}

// podGroup is a PodGroup as last seen.
type podGroup struct {
	cluster.Gang
	isGang bool
}

func newGangs() gangs {
	return gangs{groups: map[types.NamespacedName]podGroup{}, pods: map[types.NamespacedName]map[types.UID]*pod{}}
}

// FeedPodGroups subscribes the store to the PodGroups. The error is a meta.NoKindMatchError where
// the API server does not serve them; then nothing has been begun.
func (s *Store) FeedPodGroups(ctx context.Context, c cache.Cache) error {
	informer, err := c.GetInformer(ctx, &schedulingv1beta1.PodGroup{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch PodGroups: %w", err)
	}
	upsert, remove := s.count(on(s.upsertPodGroup)), s.count(on(s.removePodGroup))
	if _, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: upsert, UpdateFunc: func(_, o any) { upsert(o) }, DeleteFunc: remove,
	}); err != nil {
		return fmt.Errorf("watch PodGroups: %w", err)
	}
	return nil
}

func (s *Store) upsertPodGroup(g *schedulingv1beta1.PodGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := types.NamespacedName{Namespace: g.Namespace, Name: g.Name}
	had, known := s.gangs.groups[key]
	gang, isGang := translate.Gang(g)
	s.gangs.groups[key] = podGroup{gang, isGang}
	if !known || had.Minimum != gang.Minimum {
		s.wake(fmt.Sprintf("podgroup/%s/%d", key, gang.Minimum))
	}
}

func (s *Store) removePodGroup(g *schedulingv1beta1.PodGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.gangs.groups, types.NamespacedName{Namespace: g.Namespace, Name: g.Name})
}

// joinGang adds a pod to those of its PodGroup, partGang takes it away.
func (s *Store) joinGang(p *pod) {
	key, of := podGroupKey(p)
	if !of {
		return
	}
	if s.gangs.pods[key] == nil {
		s.gangs.pods[key] = map[types.UID]*pod{}
	}
	s.gangs.pods[key][p.UID] = p
}

func (s *Store) partGang(p *pod) {
	key, of := podGroupKey(p)
	if !of {
		return
	}
	if delete(s.gangs.pods[key], p.UID); len(s.gangs.pods[key]) == 0 {
		delete(s.gangs.pods, key)
	}
}

func podGroupKey(p *pod) (key types.NamespacedName, of bool) {
	name := translate.PodGroupOf(p.Pod)
	return types.NamespacedName{Namespace: p.Namespace, Name: name}, name != ""
}

// gangOf returns the name of the gang that a pod is of; empty: none. A PodGroup that is not known
// may be one.
func (s *Store) gangOf(p *pod) string {
	key, of := podGroupKey(p)
	if g, known := s.gangs.groups[key]; !of || known && !g.isGang {
		return ""
	}
	return key.Name
}

// addGangs adds to a snapshot what is known of the gangs that its pending pods are of.
func (s *Store) addGangs(snap *cluster.Snapshot) {
	pending := map[types.NamespacedName]map[types.UID]bool{}
	for i := range snap.Pending {
		p := &snap.Pending[i]
		key := types.NamespacedName{Namespace: p.Namespace, Name: p.Gang}
		if _, known := s.gangs.groups[key]; !known || p.Gang == "" {
			continue
		}
		if pending[key] == nil {
			pending[key] = map[types.UID]bool{}
		}
		pending[key][types.UID(p.UID)] = true
	}
	for key, asking := range pending {
		gang := s.gangs.groups[key].Gang
		for uid, p := range s.gangs.pods[key] {
			if !translate.Active(p.Pod) {
				continue
			}
			gang.Known++
			if !asking[uid] && (p.Spec.NodeName != "" || s.hasRoomMade(p)) {
				gang.Bound++
			}
		}
		snap.Gangs = append(snap.Gangs, gang)
	}
	slices.SortFunc(snap.Gangs, func(a, b cluster.Gang) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}

// NotMeant forgets which machine pods were meant for, so that it is not held for them.
func (s *Store) NotMeant(pods []cluster.PodRef) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ref := range pods {
		if _, was := s.planned[types.UID(ref.UID)]; was {
			delete(s.planned, types.UID(ref.UID))
			s.heard.Add(1) // the machine may be empty now
			s.stirHints()
		}
	}
}
