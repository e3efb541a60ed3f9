package clusterapi_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
)

// TestPatienceAfterARestart: launches of a class that nothing else has been asked about have its patience, not the default.
func TestPatienceAfterARestart(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := clusterapiv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	class := &clusterapiv1alpha1.ClusterAPINodeClass{ObjectMeta: metav1.ObjectMeta{Name: "metal"}}
	class.Spec.Patience = &clusterapiv1alpha1.Patience{Launch: &metav1.Duration{Duration: 45 * time.Minute}, Registration: &metav1.Duration{Duration: time.Hour}}
	p := newProvider(t, fake.NewClientBuilder().WithScheme(scheme).WithObjects(class).Build())
	for name, want := range map[string]lifecycle.Patience{
		"metal": {Launch: 45 * time.Minute, Registration: time.Hour, Follow: 30 * time.Second},
		"none":  {Launch: 20 * time.Minute, Registration: 30 * time.Minute, Follow: 30 * time.Second},
	} {
		if got := p.Patience(ref(name)); got != want {
			t.Errorf("of class %s: %+v, want %+v", name, got, want)
		}
	}
}
