package journal

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
)

const (
	// failuresMost bounds how many failures wait for the decision that made their NodeClaim, and failureWaits how long.
	failuresMost = 1000
	failureWaits = time.Minute
	// messageMost is how many bytes of a cloud's message are kept.
	messageMost = 1000
)

// launchFailure is the answer to a launch that there is no instance.
type launchFailure struct {
	claim  string
	at     time.Time
	answer lifecycle.Answer
}

// launchFailures are failures that the writer has not taken yet. They have no place among the decisions: hundreds may come at once.
type launchFailures struct {
	mu   sync.Mutex
	list []*launchFailure
	wake chan struct{} // there are some
}

// LaunchFailed hands in the answer to the launch of a NodeClaim that there is no instance, and returns at once. It is in the
// timelines of the NodeClaim and of the pods that were planned for it.
func (j *Journal) LaunchFailed(claim string, at time.Time, answer lifecycle.Answer) {
	if j == nil {
		return
	}
	answer.Message = shortened(answer.Message)
	j.failing.mu.Lock()
	if len(j.failing.list) < failuresMost {
		j.failing.list = append(j.failing.list, &launchFailure{claim, at, answer})
	}
	j.failing.mu.Unlock()
	select {
	case j.failing.wake <- struct{}{}:
	default:
	}
}

// shortened returns the beginning of a long message: it is kept for each pod.
func shortened(message string) string {
	if len(message) <= messageMost {
		return message
	}
	return strings.ToValidUTF8(message[:messageMost], "") + "…"
}

// takeFailures notes the failures that were handed in.
func (j *Journal) takeFailures() {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.failing.mu.Lock()
	list := j.failing.list
	j.failing.list = nil
	j.failing.mu.Unlock()
	if len(list) == 0 {
		return
	}
	j.locked(func() {
		j.failures = append(j.failures, list[:min(len(list), failuresMost-len(j.failures))]...)
		j.failed(list[len(list)-1].at)
	})
	j.toDisk(timelineLine(j.lines.written()))
}

// failed says which launches have failed. NodeClaims are launched before the decision that made them is handed in:
// what no decision is about yet waits for it, for a while.
func (j *Journal) failed(now time.Time) {
	j.failures = slices.DeleteFunc(j.failures, func(f *launchFailure) bool {
		isKnown := j.lines.find(identity{Kind: KindNode, Name: f.claim}) != nil
		if isKnown || now.Sub(f.at) > failureWaits {
			j.lines.failed(f, j.awaiting.plannedFor(f.claim))
			return true
		}
		return false
	})
}

// plannedFor returns the pods that were planned for a NodeClaim.
func (l *awaiting) plannedFor(claim string) []cluster.PodRef {
	a := l.byClaim[claim]
	if a == nil {
		return nil
	}
	var pods []cluster.PodRef
	for ref, p := range l.pods {
		if p.of == a {
			pods = append(pods, ref)
		}
	}
	slices.SortFunc(pods, cluster.PodRef.Compare)
	return pods
}

// failed says of a NodeClaim, and of the pods that were planned for it, why its launch failed, and what is done next.
func (t *timelines) failed(f *launchFailure, pods []cluster.PodRef) {
	x := &speaker{timelines: t, saying: saying{loop: record.Provisioning, at: f.at, until: f.at, times: 1}}
	why := f.answer.Reason
	next := "the NodeClaim is deleted, and its pods are planned again"
	switch f.answer.State {
	case lifecycle.AnswerNoCapacity:
		why = "no capacity"
	case lifecycle.AnswerClassUnfit:
		why = "the node class is not ready"
	case lifecycle.AnswerFailed:
		next = "the launch is tried again at " + stamp(f.answer.RetryAt)
	case lifecycle.AnswerRefused, lifecycle.AnswerNone, lifecycle.AnswerPending, lifecycle.AnswerAccepted, lifecycle.AnswerLaunched:
	}
	x.say(x.node(f.claim), "launch failed ("+why+")", f.answer.Message, next)
	for _, ref := range pods {
		if l := t.find(identity{KindPod, ref.Namespace, ref.Name, ref.UID}); l != nil {
			x.say(l, "launch of claim "+f.claim+" failed ("+why+")", f.answer.Message, next)
		}
	}
	t.prune()
}
