package apply_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/testkit/fakeapi"
)

// urgentManager is a manager as UrgentClient needs it.
type urgentManager struct {
	manager.Manager
	config *rest.Config
	client client.Client
}

func (m *urgentManager) GetConfig() *rest.Config    { return m.config }
func (m *urgentManager) GetScheme() *runtime.Scheme { return m.client.Scheme() }
func (m *urgentManager) GetRESTMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	return mapper
}
func (m *urgentManager) GetClient() client.Client { return m.client }

// TestUrgentWritesCount: a Node that an urgent client has written is not read as it was before, though that
// client is not the manager's.
func TestUrgentWritesCount(t *testing.T) {
	ctx := t.Context()
	node := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1"}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		written := node.DeepCopy()
		written.ResourceVersion = "1000000"
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(written); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()

	cached := fakeapi.New(t, node.DeepCopy()).Build()
	reads := apply.ReadYourWrites(cached, time.Now)
	urgent, err := apply.UrgentClient(&urgentManager{config: &rest.Config{Host: server.URL}, client: reads})
	if err != nil {
		t.Fatal(err)
	}
	read := func() error { return reads.Get(ctx, client.ObjectKey{Name: "n1"}, &corev1.Node{}) }
	if err := read(); err != nil {
		t.Fatalf("before anything is written: %v", err)
	}
	if err := urgent.Patch(ctx, node.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{}`))); err != nil {
		t.Fatal(err)
	}
	if err := read(); !apierrors.IsConflict(err) {
		t.Errorf("the cache has the Node as it was before the urgent write: %v, want a conflict", err)
	}
}
