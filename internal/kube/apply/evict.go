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
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	evictionWorkers = 100
	evictRetryFirst = 100 * time.Millisecond
	evictRetryMost  = 10 * time.Second
	evictionQueue   = "eviction-queue"
	// A pod that has a size is evicted after turnFirst at the earliest, so that others can join
	// the queue. It then waits for larger ones, checking every turnEvery, until turnLast: together
	// no longer than the shortest drain.
	turnFirst, turnEvery, turnLast = time.Second, 200 * time.Millisecond, 5 * time.Second
)

// Eviction asks one pod to leave its node.
type Eviction struct {
	Pod  cluster.PodRef
	Node string
	// Deadline is when the node ends what is left on it; zero: never.
	Deadline time.Time
	// Until is when the pod is left where it is, if it has not been evicted; zero: never.
	Until time.Time
	// Reason is why the node is removed, in words for people.
	Reason string
	// Size has larger pods evicted before smaller ones: kube-scheduler prefers the node with most
	// free room, so larger pods should choose while there is some. 0: it is evicted at once.
	Size int
}

// wanted is an eviction in the queue.
type wanted struct {
	Eviction
	since time.Time
	now   bool // its time has come, whoever is larger
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
	// Left: the pod is left where it is.
	Left EvictionResult = "left"
	// Held: the pod says that it must not be disrupted yet.
	Held EvictionResult = "held"
	// Blocked: a PodDisruptionBudget does not allow it yet.
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

// Evictor evicts pods and repeats each eviction until the pod leaves: a PodDisruptionBudget that
// does not allow it is asked again, and only a deadline makes the Evictor delete a pod.
type Evictor struct {
	Client client.Client
	Now    func() time.Time
	// OnOutcome is called with every outcome, from several goroutines.
	OnOutcome func(context.Context, EvictionOutcome)
	// Begin is called before every try, and what it returns after it; may be nil.
	Begin func() (end func(error))
	// Queue is where pods wait for their next try; NewEvictor makes one.
	Queue workqueue.TypedRateLimitingInterface[cluster.PodRef]

	mu     sync.Mutex // protects all that follows
	wanted map[cluster.PodRef]wanted
	sizes  map[int]int // how many are wanted, by size
}

// NewEvictor returns an evictor that works once it is started.
func NewEvictor(c client.Client, now func() time.Time, reported func(context.Context, EvictionOutcome)) *Evictor {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[cluster.PodRef](evictRetryFirst, evictRetryMost)
	config := workqueue.TypedRateLimitingQueueConfig[cluster.PodRef]{Name: evictionQueue}
	return &Evictor{
		Client: c, Now: now, OnOutcome: reported, wanted: map[cluster.PodRef]wanted{}, sizes: map[int]int{},
		Queue: workqueue.NewTypedRateLimitingQueueWithConfig(limiter, config),
	}
}

// Add asks for an eviction. Of several for one pod the earliest deadline counts.
func (e *Evictor) Add(eviction Eviction) { e.add(eviction, false) }

func (e *Evictor) add(eviction Eviction, now bool) {
	e.mu.Lock()
	had, known := e.wanted[eviction.Pod]
	sooner := !eviction.Deadline.IsZero() && (had.Deadline.IsZero() || eviction.Deadline.Before(had.Deadline))
	if known && !sooner {
		eviction.Deadline = had.Deadline
	}
	if known {
		eviction.Size = had.Size
	} else {
		had.since = e.Now()
		e.sizes[eviction.Size]++
	}
	e.wanted[eviction.Pod] = wanted{eviction, had.since, had.now || now}
	e.mu.Unlock()
	switch {
	case now, !known && eviction.Size == 0:
		e.Queue.Add(eviction.Pod)
	case !known:
		e.Queue.AddAfter(eviction.Pod, turnFirst)
	}
}

// Force is Add for a pod whose deadline has come: it is tried now, not after the pause between two
// tries.
func (e *Evictor) Force(eviction Eviction) { e.add(eviction, true) }

// forget drops an eviction that has ended.
func (e *Evictor) forget(ref cluster.PodRef) {
	e.mu.Lock()
	defer e.mu.Unlock()
	size := e.wanted[ref].Size
	if e.sizes[size]--; e.sizes[size] == 0 {
		delete(e.sizes, size)
	}
	delete(e.wanted, ref)
}

// isTurn reports whether a pod may be evicted: there is no larger one, or it has waited until
// turnLast.
func (e *Evictor) isTurn(w *wanted) bool {
	if w.Size == 0 || w.now || e.Now().Sub(w.since) >= turnLast {
		return true
	}
	for size := range e.sizes {
		if size > w.Size {
			return false
		}
	}
	return true
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
	w, known := e.wanted[ref]
	isTurn := known && e.isTurn(&w)
	e.mu.Unlock()
	switch {
	case !known:
		return true
	case !isTurn:
		e.Queue.AddAfter(ref, turnEvery)
		return true
	}
	end := func(error) {}
	if e.Begin != nil {
		end = e.Begin()
	}
	outcome := e.try(ctx, w.Eviction)
	end(outcome.Err)
	switch outcome.Result {
	case Held, Blocked, Failed:
		e.Queue.AddRateLimited(ref)
	case Evicted, Forced, Gone, Left:
		e.forget(ref)
		e.Queue.Forget(ref)
	}
	if e.OnOutcome != nil {
		e.OnOutcome(ctx, outcome)
	}
	return true
}

// try asks once.
func (e *Evictor) try(ctx context.Context, eviction Eviction) EvictionOutcome {
	outcome := EvictionOutcome{Eviction: eviction}
	pod := &corev1.Pod{}
	err := e.Client.Get(ctx, types.NamespacedName{Namespace: eviction.Pod.Namespace, Name: eviction.Pod.Name}, pod, client.UnsafeDisableDeepCopy)
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
	case !eviction.Until.IsZero() && !now.Before(eviction.Until):
		outcome.Result = Left
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

// force deletes the pod, with a grace period that ends at the deadline.
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
