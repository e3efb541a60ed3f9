package lifecycle

import (
	"fmt"
	"math/bits"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

const (
	// minDrainTime is how long a drain takes at least: time for load balancers and the
	// like to see that the node is leaving.
	minDrainTime = 5 * time.Second
	// drainPoll is how often a drain looks whether its pods and volumes have gone.
	drainPoll = time.Second
	// namesMost is how many names a wait lists.
	namesMost = 5
	// lastTier is the last tier that pods are asked to leave in, the first being 0.
	lastTier = 3
)

// DrainView is one Node that is being removed, at one instant.
type DrainView struct {
	At   time.Time
	Node DrainNode
	// Claim is nil if the Node has none.
	Claim *DrainClaim
	// Instance is what the cloud said in this pass of the Node's instance.
	Instance Instance
	// Pods are those that the drain has to wait for.
	Pods []DrainPod
	// Volumes are the attachments that must be detached before the instance goes.
	Volumes []string
}

// DrainNode is what a drain depends on of the Node.
type DrainNode struct {
	Name  string
	Ready bool
	// DeletedAt is when the drain began, Instance what it ends with.
	DeletedAt time.Time
	Instance  string
	// IsTainted: pods are kept from it, and load balancers too.
	IsTainted bool
}

// DrainClaim is what a drain depends on of the Node's claim.
type DrainClaim struct {
	IsDeleting bool
	// Deadline is when the drain ends what is left; zero: it has all the time.
	Deadline time.Time

	Drained, VolumesDetached, InstanceTerminating Condition
}

// DrainPod is one pod that a drain has to wait for.
type DrainPod struct {
	cluster.PodRef
	IsDaemon, IsCritical bool
	// Size is roughly how much room it needs elsewhere; see SizeOf. Zero: it is evicted whatever the
	// sizes of the others.
	Size int
	// DeletedAt is when the pod is to have ended; zero: it is not being deleted.
	DeletedAt time.Time
	// Grace is how long the pod may take to end.
	Grace time.Duration
	// IsHeld: it says that it must not be disrupted yet, so only the deadline ends it.
	IsHeld bool
	// BlockedBy says what may keep the pod from leaving, in words ("disruption budget web");
	// empty: nothing that is known.
	BlockedBy string
	// Finalizers hold its object back when it has ended.
	Finalizers []string
}

// PastDeadline reports whether the pod must be deleted now, by force, to have ended by the
// deadline: later would leave it less than its grace. A zero deadline never passes.
func (p *DrainPod) PastDeadline(deadline, now time.Time) bool {
	switch {
	case deadline.IsZero():
		return false
	case !p.DeletedAt.IsZero():
		return p.DeletedAt.After(deadline)
	default:
		return now.After(deadline.Add(-p.Grace))
	}
}

// Drain returns what to do for a Node that is being removed: keep new pods away, ask the
// pods to leave tier by tier, let volumes detach, end the instance, let the Node go.
func Drain(v DrainView) Step {
	switch {
	case v.Claim != nil && !v.Claim.IsDeleting:
		return Step{Act: DeleteClaim}
	case !v.Node.Ready && v.Instance == InstanceUnasked:
		return Step{Act: AskInstance}
	case v.Instance == InstanceGone:
		// Nothing runs there any more: evictions would wait for a kubelet that cannot answer.
		return Step{Act: RemoveFinalizer}
	case !v.Node.IsTainted:
		return Step{Act: TaintNode}
	case len(v.Pods) > 0:
		return waitForPods(v)
	case v.Claim == nil:
		return waitForVolumes(v)
	case v.Claim.Drained.Status == True:
		return waitForVolumes(v)
	case v.Claim.Drained.Status != Unknown:
		return wait(v.At.Add(minDrainTime), "the drain has just begun").noting(Drained, Unknown, "Draining", "")
	case v.At.Before(v.Claim.Drained.Since.Add(minDrainTime)):
		return wait(v.Claim.Drained.Since.Add(minDrainTime), "the drain takes %s at least", minDrainTime)
	default:
		return waitForVolumes(v).noting(Drained, True, "", "")
	}
}

func waitForPods(v DrainView) Step {
	var deadline time.Time
	if v.Claim != nil {
		deadline = v.Claim.Deadline
	}
	step := wait(v.At.Add(drainPoll), "%s", describe(v.Pods))
	// A pod that is on its way out, or held where it is, holds the later tiers back.
	first := lastTier + 1
	for i := range v.Pods {
		if p := &v.Pods[i]; !p.PastDeadline(deadline, v.At) {
			first = min(first, tier(p))
		}
	}
	for i := range v.Pods {
		p := &v.Pods[i]
		force := p.PastDeadline(deadline, v.At)
		asked := tier(p) == first && p.DeletedAt.IsZero() && !p.IsHeld
		if force || asked {
			step.Evict = append(step.Evict, Eviction{Pod: p.PodRef, Force: force, Size: p.Size})
		}
		if force || tier(p) == first {
			step = step.blockedBy(blockerOf(&v, p)...)
		}
	}
	if v.Claim == nil {
		return step
	}
	return step.noting(Drained, Unknown, "Draining", step.BlockedText())
}

// blockerOf names a pod that ought to have left by now, if it is one. The text stays the
// same while the reason does: it is written down whenever it changes.
func blockerOf(v *DrainView, p *DrainPod) []Blocker {
	b := Blocker{Kind: "pod", Name: p.String(), Since: v.Node.DeletedAt, Why: p.BlockedBy}
	if !p.DeletedAt.IsZero() {
		b.Since, b.Why = p.DeletedAt, "it has not ended though its time is over"
		if len(p.Finalizers) > 0 {
			b.Why = "it has finalizer " + strings.Join(p.Finalizers, ", ")
		}
	}
	if v.At.Before(b.Since.Add(NamedAfter)) {
		return nil
	}
	return []Blocker{b}
}

// tier returns how late a pod is asked to leave: daemons after those that may need them,
// and what the node needs to work last.
func tier(p *DrainPod) int {
	n := 0
	if p.IsDaemon {
		n++
	}
	if p.IsCritical {
		n += 2
	}
	return n
}

// SizeOf returns the size class of a pod that asks for so much, from 1 on: each class may ask for
// twice as much as the one before. A cpu counts as much as 4 GiB of memory.
func SizeOf(requests quantity.List) int {
	return 1 + bits.Len64(uint64(max(0, requests[quantity.CPU]+quantity.Mul(requests[quantity.Memory], 1000)/(4<<30))))
}

func waitForVolumes(v DrainView) Step {
	deadlinePassed := v.Claim != nil && !v.Claim.Deadline.IsZero() && v.At.After(v.Claim.Deadline)
	since := v.Node.DeletedAt
	if v.Claim != nil && v.Claim.VolumesDetached.Status == Unknown {
		since = v.Claim.VolumesDetached.Since
	}
	step := wait(v.At.Add(drainPoll), "volumes are attached: %s", listed(v.Volumes))
	for _, name := range v.Volumes {
		step = step.blockedBy(Blocker{Kind: "volume attachment", Name: name, Since: since})
	}
	switch {
	case v.Claim == nil && len(v.Volumes) > 0:
		return step
	case v.Claim == nil:
		return Step{Act: RemoveFinalizer}
	case len(v.Volumes) == 0:
		return terminate(v).noting(VolumesDetached, True, "", "")
	case deadlinePassed:
		return terminate(v).noting(VolumesDetached, False, "TerminationGracePeriodElapsed", step.Why)
	default:
		return step.noting(VolumesDetached, Unknown, "AwaitingVolumeDetachment", step.Why)
	}
}

func terminate(v DrainView) Step {
	if v.Instance == InstanceGoing {
		return awaitInstance(v.At, v.Node.Instance, v.Claim.InstanceTerminating)
	}
	return Step{Act: Terminate}
}

// describe counts pods and names the first few.
func describe(pods []DrainPod) string {
	names := make([]string, 0, len(pods))
	for i := range pods {
		names = append(names, pods[i].String())
	}
	if len(pods) == 1 {
		return "1 pod is waiting to leave: " + names[0]
	}
	return fmt.Sprintf("%d pods are waiting to leave: %s", len(pods), listed(names))
}

func listed(names []string) string {
	if more := len(names) - namesMost; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:namesMost], ", "), more)
	}
	return strings.Join(names, ", ")
}
