package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/dovetail-sh/dovetail/internal/cloud/remote/serve"
	"github.com/dovetail-sh/dovetail/internal/testkit/rack"
)

// TestSimulateAsksAProviderInAnotherProcess: node classes of its kind offer what it says, others what they did.
func TestSimulateAsksAProviderInAnotherProcess(t *testing.T) {
	t.Parallel()
	address := "unix://" + filepath.Join(t.TempDir(), "p.sock")
	listener, err := serve.Listen(context.Background(), address)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	classes := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithObjects(rack.NewClass("default", false)).Build()
	serve.New(rack.New(classes), serve.Options{Epoch: "1"}).Register(g)
	go func() { _ = g.Serve(listener) }() // until it is stopped
	t.Cleanup(g.Stop)
	const manifests = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: racks}
spec: {template: {spec: {nodeClassRef: {group: example.dovetail.sh, kind: ExampleNodeClass, name: default}, requirements: []}}}
---
apiVersion: v1
kind: List
items:
- {apiVersion: example.dovetail.sh/v1, kind: ExampleNodeClass, metadata: {name: default}, spec: {}}
---
apiVersion: v1
kind: Pod
metadata: {name: a}
spec: {containers: [{name: a, image: a, resources: {requests: {cpu: 3}}}]}
`
	file, unknown := filepath.Join(t.TempDir(), "racks.yaml"), filepath.Join(t.TempDir(), "unknown.yaml")
	for path, content := range map[string]string{file: manifests, unknown: strings.Replace(manifests, "kind: ExampleNodeClass, name: default", "kind: ExampleNodeClass, name: none", 1)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		args           []string
		status         int
		stdout, stderr string // parts
	}{
		"its types":                    {[]string{"-f", file, "--provider-address", address}, 0, "rack-4", ""},
		"without it they are unknown":  {[]string{"-f", file}, 2, "", "does not know what node classes ExampleNodeClass"},
		"a class that there is not":    {[]string{"-f", unknown, "--provider-address", address}, 2, "", "instance types for NodePool racks: get node class ExampleNodeClass/none"},
		"a provider that is not there": {[]string{"-f", file, "--provider-address", address + "x"}, 2, "", "the provider is not there"},
		"a scenario has its own":       {[]string{"--scenario", "x", "--provider-address", address}, 2, "", "--provider-address is for -f and --live"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			status := Main(t.Context(), append([]string{"simulate"}, tc.args...), &stdout, &stderr)
			if status != tc.status || !strings.Contains(stdout.String(), tc.stdout) || !strings.Contains(stderr.String(), tc.stderr) {
				t.Errorf("status %d, want %d; it printed\n%s%s", status, tc.status, stdout.String(), stderr.String())
			}
		})
	}
}
