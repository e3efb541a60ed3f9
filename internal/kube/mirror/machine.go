package mirror

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// machine is a Node, or a claim that has none yet, and what the last snapshot made of it and its
// pods. That holds for the next as long as neither changes; what time alone changes is made anew.
// Whatever a snapshot was given is never changed in place.
type machine struct {
	name  string       // the Node's, or the claim's
	node  *corev1.Node // as last seen; nil: there is none yet
	claim *claim       // nil: there is none

	// made is the machine but for plans and for the volumes that are attached; it was made of
	// these two states.
	ofNode *corev1.Node
	of     *karpenterv1.NodeClaim
	// timed: what the two mean may change with time alone.
	timed bool
	// settled: made says what the pods mean for it, and will as long as none of them changes.
	settled bool
	// limited: it is known how many volumes it attaches.
	limited bool
	// claiming: some of its pods have volume claims.
	claiming bool
	made     cluster.Node

	// residents are those that guards were looked up for when that many changes of them had
	// been heard of, with the shapes that volumes made of them when so many changes of those
	// had (0: that depends on more). They are known if resided.
	residents []cluster.Resident
	withClaim []residentPod
	resided   bool
	guarding  uint64
	storing   uint64
}

// residentPod is a pod with volume claims, and where it is among the residents.
type residentPod struct {
	*pod
	at int
}

// list returns every machine of ours and every Node of others, in the order of names.
func (s *Store) list() []*machine {
	if s.listed != nil {
		return s.listed
	}
	all := make([]*machine, 0, max(len(s.onNode), len(s.claims)))
	for _, m := range s.onNode {
		m.claim = nil
	}
	for name, c := range s.claims {
		if m := s.nodeOf(c); m != nil {
			if m.claim == nil || name < m.claim.Name {
				m.claim = c
			}
		} else if ref := c.Spec.NodeClassRef; s.opts.Manages(ref.Group, ref.Kind) {
			all = append(all, &machine{name: name, claim: c})
		}
	}
	for _, m := range s.onNode {
		if m.claim != nil || !s.unclaimed(m.node) {
			all = append(all, m)
		}
	}
	slices.SortStableFunc(all, func(a, b *machine) int { return cmp.Compare(a.name, b.name) })
	s.listed = all
	return all
}

// nodeOf returns the Node of a claim that has joined; nil: it has not.
func (s *Store) nodeOf(c *claim) *machine {
	if c.Status.ProviderID == "" {
		return nil
	}
	return s.onNode[s.providers[c.Status.ProviderID]]
}

// claimOf returns the claim whose Node is that; nil: there is none.
func (s *Store) claimOf(node string) *claim {
	s.list()
	if m := s.onNode[node]; m != nil {
		return m.claim
	}
	return nil
}

// isLeaving tells whether a Node is known to go. One that is not known may not have been heard of yet.
func (s *Store) isLeaving(node string) bool {
	m := s.onNode[node]
	if m == nil {
		return false
	}
	s.list()
	s.refresh(m, s.opts.Now())
	return m.made.Leaving
}

// refresh brings made up to date.
func (s *Store) refresh(m *machine, now time.Time) {
	var nc *karpenterv1.NodeClaim
	if m.claim != nil {
		nc = m.claim.NodeClaim
	}
	if m.timed || m.ofNode != m.node || m.of != nc {
		m.made, m.ofNode, m.of = translate.Machine(m.node, nc, now), m.node, nc
		m.timed = m.node != nil && isTimed(m.node) || nc != nil && isTimed(nc)
		m.settled = false
		s.limit(m)
	}
	if m.settled {
		return
	}
	m.resided = false
	if m.node == nil {
		m.made.Used, m.made.UsedByDaemons, m.made.Empty = quantity.List{}, quantity.List{}, true
		return
	}
	s.settle(m, now)
	m.settled = !m.made.Leaving && !slices.ContainsFunc(s.byNode[m.name], func(p *pod) bool { return isTimed(p.Pod) })
}

// limit adds how many volumes a machine can attach.
func (s *Store) limit(m *machine) {
	if m.node == nil {
		return
	}
	if limits := s.volumes.limits[m.name]; len(limits) > 0 {
		m.made.Allocatable = maps.Clone(m.made.Allocatable)
		maps.Copy(m.made.Allocatable, limits)
	}
	m.limited = limited(m.made.Allocatable)
}

// unsettle has what the pods of a node mean for it found out anew.
func (s *Store) unsettle(node string) {
	if m := s.onNode[node]; m != nil {
		m.settled = false
	}
}

// remake has a Node and what its pods mean for it found out anew.
func (s *Store) remake(node string) {
	if m := s.onNode[node]; m != nil {
		m.ofNode = nil
	}
}

// residentsOf returns the pods on a machine that would want another, sorted; fill adds to each
// what neither the pod alone says nor its volumes.
func (s *Store) residentsOf(m *machine, shaper *shaper, now time.Time, fill func(*pod, *cluster.Resident)) []cluster.Resident {
	if !m.resided || m.guarding != s.guarding {
		m.residents, m.withClaim = nil, nil
		for _, p := range s.byNode[m.name] {
			if !translate.Reschedulable(p.Pod) {
				continue
			}
			r := translate.Resident(p.Pod, now)
			r.Shape = p.shape.Shape
			fill(p, &r)
			if p.claims {
				m.withClaim = append(m.withClaim, residentPod{p, len(m.residents)})
			}
			m.residents = append(m.residents, r)
		}
		m.resided, m.guarding, m.storing = m.settled, s.guarding, 0
	}
	if len(m.withClaim) > 0 && m.storing != s.volumes.changes {
		m.residents, m.storing = slices.Clone(m.residents), s.volumes.changes
		for _, p := range m.withClaim {
			shape, lasting := shaper.shape(p.pod)
			if m.residents[p.at].Shape = shape; !lasting {
				m.storing = 0
			}
		}
	}
	return m.residents
}

// isTimed tells whether something has an annotation that may hold it for a time. One that holds
// it for good is none.
func isTimed(o metav1.Object) bool {
	hold, is := o.GetAnnotations()[karpenterv1.DoNotDisruptAnnotationKey]
	return is && hold != karpenterv1.LabelValueTrue
}
