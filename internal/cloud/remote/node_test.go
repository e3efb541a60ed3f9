package remote_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote/wiretest"
)

const exampleDir = "../../../examples/provider-node"

// startExample runs the example provider until stop is called, and returns when it listens.
func startExample(t *testing.T, address, state string) (stop func()) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed: the example provider is not tested")
	}
	if _, err := os.Stat(filepath.Join(exampleDir, "node_modules", "@grpc", "grpc-js")); err != nil {
		t.Skip("the example provider's packages are not installed: npm --prefix examples/provider-node ci")
	}
	cmd := exec.Command(node, "provider.js", address, state) //nolint:noctx // it is killed
	cmd.Dir, cmd.Stderr = exampleDir, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.HasPrefix(line, "listening") {
		t.Fatalf("the example provider says %q, %v", line, err)
	}
	return func() {
		_ = cmd.Process.Kill() // as a crash does
		_ = cmd.Wait()
	}
}

var exampleKind = schema.GroupVersionKind{Group: "example.dovetail.sh", Version: "v1", Kind: "ExampleNodeClass"}

// exampleClasses has the classes of the example.
func exampleClasses() client.Client {
	b := fake.NewClientBuilder().WithScheme(runtime.NewScheme())
	for name, spec := range map[string]map[string]any{"default": {}, "unready": {"unready": true}, "accepts": {"accepted": "later"}, "fails": {"accepted": "fails"}} {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		o.SetGroupVersionKind(exampleKind)
		o.SetName(name)
		b = b.WithObjects(o)
	}
	return b.Build()
}

// TestTheExampleInNodePassesProviderTest runs the provider that docs/provider.md builds.
func TestTheExampleInNodePassesProviderTest(t *testing.T) {
	t.Parallel()
	address := "unix://" + filepath.Join(t.TempDir(), "p.sock")
	defer startExample(t, address, filepath.Join(t.TempDir(), "state.json"))()
	opts := remote.Options{Address: address, Cluster: here, Version: "test", Now: time.Now}
	results, err := wiretest.Run(t.Context(), wiretest.Options{Remote: opts, Classes: exampleClasses(), Class: "default", Unready: "unready", Slow: "default", Accepts: "accepts", Fails: "fails", Run: "1"})
	if err != nil {
		t.Fatal(err)
	}
	passed := 0
	for _, r := range results {
		switch r.Verdict {
		case cloudtest.Failed:
			t.Errorf("%s: %s", r.Name, strings.Join(r.Why, "; "))
		case cloudtest.Passed:
			passed++
		case cloudtest.Skipped:
		}
	}
	if passed < 13 {
		t.Errorf("%d of %d tests passed, want at least 13", passed, len(results))
	}
}

// TestTheExampleInNodeKeepsItsTokensOverACrash kills it after a launch.
func TestTheExampleInNodeKeepsItsTokensOverACrash(t *testing.T) {
	t.Parallel()
	address, state := "unix://"+filepath.Join(t.TempDir(), "p.sock"), filepath.Join(t.TempDir(), "state.json")
	kill := startExample(t, address, state)
	p := connect(t, address, exampleClasses())
	r := aRequestOf(t, p, cloud.ClassRef{Group: exampleKind.Group, Kind: exampleKind.Kind, Name: "default"}, "t1")
	first := p.Launch(t.Context(), []cloud.LaunchRequest{r})[0]
	if first.Err != nil {
		t.Fatal(first.Err)
	}
	kill()
	defer startExample(t, address, state)()
	var again cloud.LaunchResult
	eventually(t, func() bool { again = p.Launch(t.Context(), []cloud.LaunchRequest{r})[0]; return again.Err == nil })
	if all := listed(t, p); len(all) != 1 || again.Instance.ID != first.Instance.ID {
		t.Errorf("after the crash the token gets %s, before it got %s; %d are listed", again.Instance.ID, first.Instance.ID, len(all))
	}
}
