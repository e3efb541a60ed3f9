package observe

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/dovetail-sh/dovetail/internal/core/verdict"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	// eventSource is the component that events come from. Tools filter by it.
	eventSource   = "karpenter"
	defaultDedupe = 2 * time.Minute
	// rememberedMost bounds the memory of what was said.
	rememberedMost = 20_000

	// limitedPerSecond and limitedBurst bound the events of one Limit.
	limitedPerSecond = 5
	limitedBurst     = 10
	// pacedPerSecond and pacedBurst bound those of one Limit of which each object of thousands may have one at the same
	// time. client-go queues 1,000 events, and drops what does not fit, whatever it is about.
	pacedPerSecond = 20
	pacedBurst     = 300
	// messageMost bounds a message, in bytes.
	messageMost = 1024
)

// Limit names events that are limited in number for the whole cluster, because there may be one for
// each of thousands of pods.
type Limit string

// The limits.
const (
	limitNominated    Limit = "nominated"
	limitLaunchFailed Limit = "launch failed"
	limitDoNotDisrupt Limit = "do-not-disrupt"

	pacedRefused          Limit = "refused pods"
	pacedBlocked          Limit = "blocked nodes"
	pacedUnconsolidatable Limit = "unconsolidatable nodes"
)

// Event is one thing to say about one object.
type Event struct {
	// Reason is for programs, Message for people. Type is corev1.EventTypeNormal
	// or corev1.EventTypeWarning.
	Reason, Message, Type string
	// Dedupe is for how long the same reason is not said again about the same object
	// with the same DedupeValues; zero: two minutes.
	Dedupe       time.Duration
	DedupeValues []string
	// Decision is the ID of the decision that the event is about; empty: of none. It is at the end of the
	// message, and in the annotation translate.DecisionAnnotationKey of the event.
	Decision string
	// Limit: no more than five events of the same Limit are written per second, or twenty of the paced ones; empty: no
	// limit. What is left out is written when it is asked for again.
	Limit Limit
}

// Recorder writes events. It says nothing twice within the event's Dedupe, and is safe
// for concurrent use.
type Recorder struct {
	rec record.EventRecorder
	now func() time.Time

	mu       sync.Mutex
	said     map[string]time.Time    // guarded by mu; until when not to repeat it
	limiters map[Limit]*rate.Limiter // guarded by mu
}

// NewRecorder returns a recorder that writes through rec.
func NewRecorder(rec record.EventRecorder, now func() time.Time) *Recorder {
	return &Recorder{
		rec: rec, now: now, said: map[string]time.Time{},
		limiters: map[Limit]*rate.Limiter{
			limitNominated:    rate.NewLimiter(limitedPerSecond, limitedBurst),
			limitLaunchFailed: rate.NewLimiter(limitedPerSecond, limitedBurst),
			limitDoNotDisrupt: rate.NewLimiter(limitedPerSecond, limitedBurst),

			pacedRefused:          rate.NewLimiter(pacedPerSecond, pacedBurst),
			pacedBlocked:          rate.NewLimiter(pacedPerSecond, pacedBurst),
			pacedUnconsolidatable: rate.NewLimiter(pacedPerSecond, pacedBurst),
		},
	}
}

// NewEventRecorder returns what writes events to the API server in the background, for
// NewRecorder. Stop ends it; events not yet written are lost.
func NewEventRecorder(clientset kubernetes.Interface, scheme *runtime.Scheme) (rec record.EventRecorder, stop func()) {
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: clientset.CoreV1().Events("")})
	return broadcaster.NewRecorder(scheme, corev1.EventSource{Component: eventSource}), broadcaster.Shutdown
}

// Event writes e about obj, unless it was said a short time ago or its Limit is reached.
func (r *Recorder) Event(obj runtime.Object, e Event) {
	if !r.allow(obj, e) {
		return
	}
	if e.Decision == "" {
		r.rec.Event(obj, e.Type, e.Reason, verdict.Cut(e.Message, messageMost))
		return
	}
	end := " (decision " + e.Decision + ")"
	r.rec.AnnotatedEventf(obj, map[string]string{translate.DecisionAnnotationKey: e.Decision}, e.Type, e.Reason, "%s%s", verdict.Cut(e.Message, messageMost-len(end)), end)
}

func (r *Recorder) allow(obj runtime.Object, e Event) bool {
	now, key := r.now(), dedupeKey(obj, e)
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.said[key]) {
		return false
	}
	if limiter := r.limiters[e.Limit]; limiter != nil && !limiter.AllowN(now, 1) {
		return false
	}
	if len(r.said) >= rememberedMost {
		r.forget(now)
	}
	dedupe := e.Dedupe
	if dedupe == 0 {
		dedupe = defaultDedupe
	}
	r.said[key] = now.Add(dedupe)
	return true
}

// forget makes room: what may be said again first, and if that is nothing, everything.
// The price is an event repeated.
func (r *Recorder) forget(now time.Time) {
	for key, until := range r.said {
		if !now.Before(until) {
			delete(r.said, key)
		}
	}
	if len(r.said) >= rememberedMost {
		clear(r.said)
	}
}

func dedupeKey(obj runtime.Object, e Event) string {
	id := "?"
	if o, err := meta.Accessor(obj); err == nil {
		id = string(o.GetUID())
		if id == "" {
			id = fmt.Sprintf("%T/%s/%s", obj, o.GetNamespace(), o.GetName())
		}
	}
	return e.Reason + "\n" + id + "\n" + strings.Join(e.DedupeValues, "\n")
}
