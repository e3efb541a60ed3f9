package deploy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cli/demo"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestTheControllersAccountChangesOnlyTheDeletionCostOfPods patches a pod as the controller does with
// the gate PodDeletionCostManagement, and as a thief of its token would.
func TestTheControllersAccountChangesOnlyTheDeletionCostOfPods(t *testing.T) {
	t.Parallel()
	var given []string
	for _, g := range rightsIn(t, "gates") {
		given = append(given, singly(g)...)
	}
	if diff := cmp.Diff([]string{"cluster: patch pods"}, given); diff != "" {
		t.Errorf("rights of the gate (-want +given):\n%s", diff)
	}
	cluster := testkit.StartCluster(t)
	admin, err := client.New(cluster.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := demo.Manifests(os.DirFS(filepath.Join("..", "..", "deploy", "kubernetes", "gates")))
	if err != nil {
		t.Fatal(err)
	}
	if err := demo.Apply(t.Context(), admin, append(manifests, rbacObjects(t, ".")...)...); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Annotations: map[string]string{"theirs": "1"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}
	testkit.Eventually(t, patience, func() error { return admin.Create(t.Context(), pod) }) // needs its namespace's service account
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: controllerUser, Groups: controllerGroups}
	controller, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	patch := func(by client.Client, text string) error {
		return by.Patch(t.Context(), pod.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)))
	}
	tries := 0
	testkit.Eventually(t, patience, func() error { // the API server learns of roles and policies by watching
		tries++
		err := patch(controller, fmt.Sprintf(`{"metadata": {"labels": {"try": "%d"}}}`, tries))
		if err == nil {
			return errors.New("the controller's account changed a pod's labels")
		}
		if !apierrors.IsInvalid(err) {
			return err
		}
		return nil
	})
	for text, allowed := range map[string]bool{
		`{"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-3"}}}`:                 true,
		`{"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": null}}}`:                 true,
		`{"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-2", "theirs": null}}}`: false,
		`{"metadata": {"annotations": {"theirs": "2"}}}`:                                                      false,
		`{"metadata": {"annotations": {"more": "2"}}}`:                                                        false,
		`{"metadata": {"finalizers": ["example.com/held"]}}`:                                                  false,
		`{"spec": {"containers": [{"name": "web", "image": "worse"}]}}`:                                       false,
	} {
		if err := patch(controller, text); (err == nil) != allowed {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := patch(admin, `{"metadata": {"labels": {"by": "admin"}}}`); err != nil {
		t.Errorf("the admin: %v", err)
	}
}
