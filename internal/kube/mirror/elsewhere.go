package mirror

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/nominate"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// history is what is remembered of a pod beyond its object.
type history struct {
	// tries is how often kube-scheduler is known to have tried it in vain, triedAt when last.
	tries   int
	triedAt time.Time
	// meantAt is when it was meant for the machine that it is meant for.
	meantAt time.Time
	// refusedBy are the hostnames of machines where kube-scheduler would not have it,
	// though we meant it to be there.
	refusedBy []string
	// movedAt is when it was made in the place of an evicted one; zero: it was not, as far as is
	// known.
	movedAt time.Time
	// moves is how many times in a row that was, each soon after the last.
	moves int
	// home is the machine that a step of disruption meant it for, and homeOf that step.
	home, homeOf string
}

// giveUp has pods planned for another machine than the one where kube-scheduler has
// refused to bind them.
func (s *Store) giveUp(now time.Time) {
	if len(s.unbound) == 0 {
		return
	}
	var stuck []nominate.Stuck
	already := 0
	for uid, p := range s.unbound {
		if len(p.refusedBy) > 0 {
			already++
		}
		n := s.joined(s.planned[uid])
		if n == nil || stage(n) != nominate.Open || !opensAlone(n) || n.Labels[corev1.LabelHostname] == "" {
			continue
		}
		since := p.meantAt
		if c := s.claimOf(n.Name); c != nil {
			initialised := meta.FindStatusCondition(c.Status.Conditions, karpenterv1.ConditionTypeInitialized)
			if initialised == nil || initialised.Status != metav1.ConditionTrue {
				continue
			}
			if at := initialised.LastTransitionTime.Time; at.After(since) {
				since = at
			}
		}
		stuck = append(stuck, nominate.Stuck{PodRef: translate.PodRef(p.Pod), Since: since, TriedAt: p.triedAt, Times: len(p.refusedBy)})
	}
	slices.SortFunc(stuck, func(a, b nominate.Stuck) int { return strings.Compare(a.String(), b.String()) })
	for _, ref := range nominate.Elsewhere(now, stuck, already) {
		uid := types.UID(ref.UID)
		p := s.unbound[uid]
		p.refusedBy = append(slices.Clone(p.refusedBy), s.joined(s.planned[uid]).Labels[corev1.LabelHostname])
		delete(s.planned, uid)
		s.hints.tell(Refused)
	}
}
