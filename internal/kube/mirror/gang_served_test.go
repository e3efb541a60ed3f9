package mirror_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// podGroupServer is as much of an API server as is asked about PodGroups. It has one, once it
// serves them.
type podGroupServer struct{ serves atomic.Bool }

func (s *podGroupServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	const versions = "/apis/scheduling.k8s.io/v1beta1"
	switch path := r.URL.Path; {
	case path == "/api":
		_, _ = w.Write([]byte(`{"kind":"APIVersions","versions":["v1"]}`))
	case path == "/apis":
		_, _ = w.Write([]byte(`{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"scheduling.k8s.io","versions":[{"groupVersion":"scheduling.k8s.io/v1","version":"v1"}]}]}`))
	case path == versions && s.serves.Load():
		_, _ = w.Write([]byte(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"scheduling.k8s.io/v1beta1","resources":[{"name":"podgroups","namespaced":true,"kind":"PodGroup","verbs":["list","watch"]}]}`))
	case path == versions+"/podgroups" && s.serves.Load() && r.URL.Query().Get("sendInitialEvents") != "":
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`))
	case path == versions+"/podgroups" && s.serves.Load() && r.URL.Query().Get("watch") != "":
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case path == versions+"/podgroups" && s.serves.Load():
		_, _ = w.Write([]byte(`{"kind":"PodGroupList","apiVersion":"scheduling.k8s.io/v1beta1","metadata":{"resourceVersion":"7"},"items":[
			{"metadata":{"namespace":"default","name":"train","resourceVersion":"7"},"spec":{"schedulingPolicy":{"gang":{"minCount":4}}}}]}`))
	default:
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))
	}
}

// TestPodGroupsAreReadWhenTheyAreServed: the API server knows the group of PodGroups, and comes to
// serve them later.
func TestPodGroupsAreReadWhenTheyAreServed(t *testing.T) {
	t.Parallel()
	api := &podGroupServer{}
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	watches, err := cache.New(&rest.Config{Host: server.URL}, cache.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- watches.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if !watches.WaitForCacheSync(ctx) {
		t.Fatal("the cache does not start")
	}
	store := mirror.NewStore(mirror.Options{Vocabulary: translate.NewVocabulary(nil, nil), Now: time.Now, Manages: func(string, string) bool { return true }})
	for range 2 {
		if err := store.FeedPodGroups(ctx, watches); !meta.IsNoMatchError(err) {
			t.Fatalf("PodGroups that are not served: %v", err)
		}
	}
	api.serves.Store(true)
	if err := store.FeedPodGroups(ctx, watches); err != nil {
		t.Fatal(err)
	}
	pod := podWith("a")
	pod.Namespace = "default"
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("train")}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	if err := store.Observe(pod); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patience, func() error {
		if gangs := store.Snapshot().Gangs; len(gangs) != 1 || gangs[0].Minimum != 4 || gangs[0].Known != 1 {
			return errors.New("the gang is not known")
		}
		return nil
	})
}
