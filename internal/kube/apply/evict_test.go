package apply

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

var evictNow = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func evictionOf(deadline time.Duration) Eviction {
	e := Eviction{Pod: cluster.PodRef{Namespace: "ns", Name: "web", UID: "1"}, Node: "n1"}
	if deadline != 0 {
		e.Deadline = evictNow.Add(deadline)
	}
	return e
}

func webPod(change func(*corev1.Pod)) *corev1.Pod {
	grace := int64(30)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "1"},
		Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: &grace},
	}
	if change != nil {
		change(p)
	}
	return p
}

// asked is what an API server was asked for, and with which precondition.
type asked struct {
	Evictions int
	Grace     int64 // of a deletion; 0: there was none
	UID       string
}

// evictServer is an API server with one pod, that answers evictions with err.
func evictServer(pod *corev1.Pod, err error, asked *asked) client.Client {
	b := fake.NewClientBuilder()
	if pod != nil {
		b = b.WithObjects(pod)
	}
	return b.WithInterceptorFuncs(interceptor.Funcs{
		SubResourceCreate: func(_ context.Context, _ client.Client, _ string, obj, sub client.Object, _ ...client.SubResourceCreateOption) error {
			asked.Evictions++
			asked.UID = string(obj.GetUID())
			return err
		},
		Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, opts ...client.DeleteOption) error {
			o := (&client.DeleteOptions{}).ApplyOptions(opts)
			asked.Grace, asked.UID = *o.GracePeriodSeconds, string(*o.Preconditions.UID)
			return err
		},
	}).Build()
}

func TestOneTryToEvict(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	for name, tt := range map[string]struct {
		pod      *corev1.Pod
		err      error
		deadline time.Duration
		want     EvictionResult
		code     int
		asked    asked
	}{
		"the API server takes it":      {pod: webPod(nil), want: Evicted, code: 200, asked: asked{Evictions: 1, UID: "1"}},
		"the pod is not there":         {want: Gone},
		"another pod has its name":     {pod: webPod(func(p *corev1.Pod) { p.UID = "2" }), want: Gone},
		"it has ended":                 {pod: webPod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), want: Gone},
		"it went meanwhile":            {pod: webPod(nil), err: apierrors.NewNotFound(pods, "web"), want: Gone, code: 404, asked: asked{Evictions: 1, UID: "1"}},
		"it was replaced meanwhile":    {pod: webPod(nil), err: apierrors.NewConflict(pods, "web", errors.New("uid")), want: Gone, code: 409, asked: asked{Evictions: 1, UID: "1"}},
		"its budget says no":           {pod: webPod(nil), err: apierrors.NewTooManyRequests("budget", 0), want: Blocked, code: 429, asked: asked{Evictions: 1, UID: "1"}},
		"the API server has a problem": {pod: webPod(nil), err: apierrors.NewInternalError(errors.New("x")), want: Failed, code: 500, asked: asked{Evictions: 1, UID: "1"}},
		"the API server is away":       {pod: webPod(nil), err: errors.New("connection refused"), want: Failed, asked: asked{Evictions: 1, UID: "1"}},
		"two budgets select it": {
			pod: webPod(nil), err: apierrors.NewInternalError(errors.New("This pod has more than one PodDisruptionBudget")),
			want: Blocked, code: 500, asked: asked{Evictions: 1, UID: "1"},
		},
		"it must not be disrupted": {
			pod:  webPod(func(p *corev1.Pod) { p.Annotations = map[string]string{karpenterv1.DoNotDisruptAnnotationKey: "true"} }),
			want: Held,
		},
		"it is leaving": {
			pod: webPod(func(p *corev1.Pod) {
				p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: evictNow}, []string{"x"}
			}), want: Gone,
		},
		"the deadline is far":                      {pod: webPod(nil), deadline: time.Hour, want: Evicted, code: 200, asked: asked{Evictions: 1, UID: "1"}},
		"the deadline leaves less than its grace":  {pod: webPod(nil), deadline: 20500 * time.Millisecond, want: Forced, asked: asked{Grace: 20, UID: "1"}},
		"the deadline has passed: one second left": {pod: webPod(nil), deadline: -time.Hour, want: Forced, asked: asked{Grace: 1, UID: "1"}},
		"a deadline ends what must not be disrupted": {
			pod:      webPod(func(p *corev1.Pod) { p.Annotations = map[string]string{karpenterv1.DoNotDisruptAnnotationKey: "true"} }),
			deadline: 10 * time.Second, want: Forced, asked: asked{Grace: 10, UID: "1"},
		},
		"it is leaving, but too late": {
			pod: webPod(func(p *corev1.Pod) {
				p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: evictNow.Add(time.Minute)}, []string{"x"}
			}), deadline: 10 * time.Second, want: Forced, asked: asked{Grace: 10, UID: "1"},
		},
		"force that fails is tried again": {
			pod: webPod(nil), deadline: time.Second, err: errors.New("connection refused"), want: Failed, asked: asked{Grace: 1, UID: "1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got asked
			e := NewEvictor(evictServer(tt.pod, tt.err, &got), func() time.Time { return evictNow }, nil)
			defer e.Queue.ShutDown()
			outcome := e.try(t.Context(), evictionOf(tt.deadline))
			if outcome.Result != tt.want || outcome.Code != tt.code {
				t.Errorf("try = %s (code %d), want %s (code %d): %v", outcome.Result, outcome.Code, tt.want, tt.code, outcome.Err)
			}
			if diff := cmp.Diff(tt.asked, got); diff != "" {
				t.Errorf("asked of the API server (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEvictorHasPatienceAndAnEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var refusals atomic.Int32
		c := fake.NewClientBuilder().WithObjects(webPod(nil)).WithInterceptorFuncs(interceptor.Funcs{
			SubResourceCreate: func(context.Context, client.Client, string, client.Object, client.Object, ...client.SubResourceCreateOption) error {
				if refusals.Add(1) <= 3 {
					return &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests}}
				}
				return nil
			},
		}).Build()
		start := time.Now()
		var reported []string
		ctx, cancel := context.WithCancel(t.Context())
		e := NewEvictor(c, time.Now, func(_ context.Context, o EvictionOutcome) {
			reported = append(reported, string(o.Result)+" after "+time.Since(start).String())
		})
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = e.Start(ctx)
		}()
		e.Add(evictionOf(0))
		e.Add(evictionOf(0)) // one pod is one item
		time.Sleep(time.Minute)
		synctest.Wait()
		want := []string{"blocked after 0s", "blocked after 100ms", "blocked after 300ms", "evicted after 700ms"}
		if diff := cmp.Diff(want, reported); diff != "" {
			t.Errorf("reported (-want +got):\n%s", diff)
		}
		if len(e.wanted) != 0 {
			t.Errorf("%d evictions are remembered for nothing", len(e.wanted))
		}
		cancel()
		<-done
	})
}

func TestEvictorKeepsTheEarliestDeadline(t *testing.T) {
	t.Parallel()
	e := NewEvictor(fake.NewClientBuilder().Build(), time.Now, nil)
	defer e.Queue.ShutDown()
	ref := evictionOf(0).Pod
	for _, step := range []struct{ add, want time.Duration }{{0, 0}, {time.Hour, time.Hour}, {2 * time.Hour, time.Hour}, {0, time.Hour}, {time.Minute, time.Minute}} {
		e.Add(evictionOf(step.add))
		if got, want := e.wanted[ref].Deadline, evictionOf(step.want).Deadline; !got.Equal(want) {
			t.Errorf("after adding %s: deadline %s, want %s", step.add, got, want)
		}
	}
}

// TestLargerPodsAreAskedFirst when they are to find room among what others have free, but none
// waits for long, and a pod whose deadline has come does not wait at all.
func TestLargerPodsAreAskedFirst(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		sizes   map[string]int
		blocked string // a pod whose budget says no for a long time
		force   string
		order   []string // empty: none
		from    time.Duration
		until   time.Duration // when all but the blocked one have been asked
	}{
		"none has a size":        {sizes: map[string]int{"a": 0, "b": 0}},
		"they are of one size":   {sizes: map[string]int{"a": 2, "b": 2}, from: turnFirst, until: turnFirst},
		"there are three sizes":  {sizes: map[string]int{"a": 1, "b": 2, "c": 3}, order: []string{"c", "b", "a"}, from: turnFirst, until: turnFirst + 2*turnEvery},
		"the largest is blocked": {sizes: map[string]int{"a": 1, "b": 3}, blocked: "b", from: turnLast, until: turnLast},
		"time has come for one":  {sizes: map[string]int{"a": 1, "b": 3}, blocked: "b", force: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var mu sync.Mutex
				var order []string // in which they went, but for the blocked one
				b := fake.NewClientBuilder()
				for pod := range tt.sizes {
					b = b.WithObjects(webPod(func(p *corev1.Pod) { p.Name, p.UID = pod, types.UID(pod) }))
				}
				c := b.WithInterceptorFuncs(interceptor.Funcs{
					SubResourceCreate: func(_ context.Context, _ client.Client, _ string, obj, _ client.Object, _ ...client.SubResourceCreateOption) error {
						after := time.Since(start)
						if obj.GetName() == tt.blocked {
							if after < time.Minute {
								return apierrors.NewTooManyRequests("budget", 0)
							}
							return nil
						}
						if after < tt.from || after > tt.until {
							t.Errorf("%s is asked after %s, want %s to %s", obj.GetName(), after, tt.from, tt.until)
						}
						mu.Lock()
						defer mu.Unlock()
						order = append(order, obj.GetName())
						return nil
					},
				}).Build()
				ctx, cancel := context.WithCancel(t.Context())
				e := NewEvictor(c, time.Now, nil)
				done := make(chan struct{})
				go func() {
					defer close(done)
					_ = e.Start(ctx)
				}()
				for _, pod := range slices.Sorted(maps.Keys(tt.sizes)) {
					e.Add(Eviction{Pod: cluster.PodRef{Namespace: "ns", Name: pod, UID: pod}, Node: "n1", Size: tt.sizes[pod]})
					if pod == tt.force {
						e.Force(Eviction{Pod: cluster.PodRef{Namespace: "ns", Name: pod, UID: pod}, Node: "n1", Size: tt.sizes[pod]})
					}
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if len(tt.order) > 0 {
					if diff := cmp.Diff(tt.order, order); diff != "" {
						t.Errorf("the order in which they were asked (-want +got):\n%s", diff)
					}
				}
				if len(e.wanted)+len(e.sizes) != 0 {
					t.Errorf("%d evictions of %d sizes are remembered for nothing", len(e.wanted), len(e.sizes))
				}
				cancel()
				<-done
			})
		})
	}
}
