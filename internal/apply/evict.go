package apply

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/translate"
)

const (
	evictionWorkers = 100
	evictRetryFirst = 100 * time.Millisecond
	evictRetryMost  = 10 * time.Second
	evictionQueue   = "eviction-queue"
)

// Eviction asks one pod to leave its node.
type Eviction struct {
	Pod  cluster.PodRef
	Node string
	// Deadline is when the node ends what is left on it; zero: never.
	Deadline time.Time
	// Reason is why the node is removed, in words for people.
	Reason string
}

// EvictionResult is what became of one try.
type EvictionResult string

// The results. All but Held, Blocked and Failed end the eviction.
const (
	// Evicted: the eviction API took the pod.
	Evicted EvictionResult = "evicted"
	// Forced: the pod was deleted, because the deadline leaves it just the time to end.
	Forced EvictionResult = "forced"
	// Gone: the pod had left or was leaving.
	Gone EvictionResult = "gone"
	// Held: the pod says that it must not be disrupted yet.
	Held EvictionResult = "held"
	// Blocked: a disruption budget does not allow it yet.
	Blocked EvictionResult = "blocked"
	// Failed: the API server could not be asked.
	Failed EvictionResult = "failed"
)

// EvictionOutcome is one try and what became of it.
type EvictionOutcome struct {
	Eviction
	Result EvictionResult
	// Object is the pod as it was; nil if it is gone.
	Object *corev1.Pod
	// Code is the API server's answer; 0 if it was not asked.
	Code int
	Err  error
}

// Evictor asks pods to leave, each until it does, with patience: a budget that says no is
// asked again, and only a deadline is a reason for force.
type Evictor struct {
	Client client.Client
	Now    func() time.Time
	// Told is called with every outcome, from several goroutines.
	Told func(context.Context, EvictionOutcome)
	// Queue is where pods wait for their next try; NewEvictor makes one.
	Queue workqueue.TypedRateLimitingInterface[cluster.PodRef]

	mu     sync.Mutex
	wanted map[cluster.PodRef]Eviction // guarded by mu; those in the queue
}

// NewEvictor returns an evictor that works once it is started.
func NewEvictor(c client.Client, now func() time.Time, told func(context.Context, EvictionOutcome)) *Evictor {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[cluster.PodRef](evictRetryFirst, evictRetryMost)
	config := workqueue.TypedRateLimitingQueueConfig[cluster.PodRef]{Name: evictionQueue}
	return &Evictor{
		Client: c, Now: now, Told: told, wanted: map[cluster.PodRef]Eviction{},
		Queue: workqueue.NewTypedRateLimitingQueueWithConfig(limiter, config),
	}
}

// Add asks for an eviction. Of several for one pod the earliest deadline counts.
func (e *Evictor) Add(eviction Eviction) {
	e.mu.Lock()
	had, known := e.wanted[eviction.Pod]
	sooner := !eviction.Deadline.IsZero() && (had.Deadline.IsZero() || eviction.Deadline.Before(had.Deadline))
	if known && !sooner {
		eviction.Deadline = had.Deadline
	}
	e.wanted[eviction.Pod] = eviction
	e.mu.Unlock()
	if !known {
		e.Queue.Add(eviction.Pod)
	}
}

// Force is Add for a pod whose time has come: it is looked at now, not when its pause
// between two tries is over.
func (e *Evictor) Force(eviction Eviction) {
	e.Add(eviction)
	e.Queue.Add(eviction.Pod)
}

// Start works until the context is over.
func (e *Evictor) Start(ctx context.Context) error {
	var workers sync.WaitGroup
	for range evictionWorkers {
		workers.Go(func() {
			for e.Next(ctx) {
			}
		})
	}
	<-ctx.Done()
	e.Queue.ShutDown()
	workers.Wait()
	return nil
}

// Next waits for a pod whose time it is and tries it once. False: the queue is shut down.
func (e *Evictor) Next(ctx context.Context) (more bool) {
	ref, shutdown := e.Queue.Get()
	if shutdown {
		return false
	}
	defer e.Queue.Done(ref)
	e.mu.Lock()
	eviction, known := e.wanted[ref]
	e.mu.Unlock()
	if !known {
		return true
	}
	outcome := e.try(ctx, eviction)
	switch outcome.Result {
	case Held, Blocked, Failed:
		e.Queue.AddRateLimited(ref)
	case Evicted, Forced, Gone:
		e.mu.Lock()
		delete(e.wanted, ref)
		e.mu.Unlock()
		e.Queue.Forget(ref)
	}
	if e.Told != nil {
		e.Told(ctx, outcome)
	}
	return true
}

// try asks once.
func (e *Evictor) try(ctx context.Context, eviction Eviction) EvictionOutcome {
	outcome := EvictionOutcome{Eviction: eviction}
	pod := &corev1.Pod{}
	err := e.Client.Get(ctx, types.NamespacedName{Namespace: eviction.Pod.Namespace, Name: eviction.Pod.Name}, pod)
	now := e.Now()
	switch {
	case apierrors.IsNotFound(err), err == nil && string(pod.UID) != eviction.Pod.UID:
		outcome.Result = Gone
		return outcome
	case err != nil:
		outcome.Result, outcome.Err = Failed, fmt.Errorf("read pod %s: %w", eviction.Pod, err)
		return outcome
	}
	outcome.Object = pod
	state := translate.DrainPod(pod, now)
	switch {
	case translate.Terminal(pod):
		outcome.Result = Gone
	case state.PastDeadline(eviction.Deadline, now):
		outcome.Result, outcome.Err = e.force(ctx, pod, eviction.Deadline.Sub(now))
	case translate.Terminating(pod):
		outcome.Result = Gone
	case !translate.Evictable(pod, now):
		outcome.Result = Held
	default:
		outcome.Result, outcome.Code, outcome.Err = e.evict(ctx, pod)
	}
	return outcome
}

// force deletes the pod and leaves it what is left of the time to the deadline.
func (e *Evictor) force(ctx context.Context, pod *corev1.Pod, left time.Duration) (EvictionResult, error) {
	grace := max(1, int64(math.Floor(left.Seconds())))
	err := e.Client.Delete(ctx, pod, client.GracePeriodSeconds(grace), client.Preconditions{UID: &pod.UID})
	if err != nil && !IsStale(err) {
		return Failed, fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return Forced, nil
}

func (e *Evictor) evict(ctx context.Context, pod *corev1.Pod) (EvictionResult, int, error) {
	err := e.Client.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	})
	code := answerCode(err)
	switch {
	case err == nil:
		return Evicted, code, nil
	case IsStale(err):
		return Gone, code, nil
	case apierrors.IsTooManyRequests(err), strings.Contains(err.Error(), "more than one PodDisruptionBudget"):
		// The second is a plain 500 with this text (kubernetes 1.37): nobody can say then
		// which budget counts, so the API server says no until one of them goes.
		return Blocked, code, fmt.Errorf("evict pod %s/%s: %w", pod.Namespace, pod.Name, err)
	default:
		return Failed, code, fmt.Errorf("evict pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
}

// answerCode returns the HTTP status that an answer had; 0 if there was none.
func answerCode(err error) int {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return http.StatusOK
	case errors.As(err, &status):
		return int(status.Status().Code)
	default:
		return 0
	}
}
