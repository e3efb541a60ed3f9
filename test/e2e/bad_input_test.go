package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// nowhere is a kubeconfig that is in order and leads to nobody.
const nowhere = `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}],
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]}
`

func TestAMistakeInTheCallEndsTheProcessWithOneLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good", nowhere)
	tests := map[string]struct {
		args   []string
		status int
		says   []string // what the line must have
	}{
		"a command that does not exist":  {[]string{"controler"}, 2, []string{`"controler"`, "--help"}},
		"a flag that does not exist":     {[]string{"controller", "--batch-idle-time", "1s"}, 2, []string{"--batch-idle-time", "dovetail controller --help"}},
		"a flag's value that is no time": {[]string{"controller", "--batch-idle-duration", "soon"}, 2, []string{"--batch-idle-duration", `"soon"`}},
		"an argument too many":           {[]string{"controller", "now"}, 2, []string{`"now"`}},
		"a kubeconfig that is not there": {[]string{"controller", "--kubeconfig", filepath.Join(dir, "none")}, 1, []string{"--kubeconfig", filepath.Join(dir, "none"), "no such file"}},
		"a kubeconfig that is a directory": {
			[]string{"controller", "--kubeconfig", dir}, 1, []string{"kubeconfig", dir, "is a directory"},
		},
		"a kubeconfig that is not one": {
			[]string{"controller", "--kubeconfig", file("garbage", "a: [")}, 1, []string{"kubeconfig", filepath.Join(dir, "garbage")},
		},
		"no kubeconfig at all":   {[]string{"controller"}, 1, []string{"--kubeconfig", "KUBECONFIG"}},
		"an unknown cloud":       {[]string{"controller", "--kubeconfig", good, "--cloud-provider", "sky"}, 1, []string{"--cloud-provider", `"sky"`, "kwok"}},
		"no cloud":               {[]string{"controller", "--kubeconfig", good}, 1, []string{"--cloud-provider", "CLOUD_PROVIDER", "aws", "kwok"}},
		"a port out of range":    {[]string{"controller", "--cloud-provider=kwok", "--kubeconfig", good, "--metrics-port", "70000"}, 1, []string{"--metrics-port", "70000", "65535"}},
		"a journal without room": {[]string{"controller", "--cloud-provider=kwok", "--kubeconfig", good, "--journal-memory-bytes", "5"}, 1, []string{"--journal-memory-bytes", "5", "1048576"}},
		"a journal where none can be": {
			[]string{"controller", "--cloud-provider=kwok", "--kubeconfig", good, "--journal-dir", filepath.Join(good, "journal")}, 1, []string{"--journal-dir", good, "not a directory"},
		},
		"no journal to read":           {[]string{"replay", filepath.Join(dir, "none")}, 1, []string{filepath.Join(dir, "none"), "no such file"}},
		"no controller to ask":         {[]string{"explain", "x", "--address", "localhost:1"}, 5, []string{"http://localhost:1", "refused", "port-forward"}},
		"a question about nothing":     {[]string{"explain", "a/b/c"}, 2, []string{`"a/b/c"`, "NAMESPACE/NAME", "dovetail explain --help"}},
		"a snapshot of no cluster":     {[]string{"snapshot"}, 1, []string{"--kubeconfig", "KUBECONFIG"}},
		"a snapshot of a cluster away": {[]string{"snapshot", "--kubeconfig", good}, 1, []string{"127.0.0.1:1", "refused"}},
		"an instance-type file that is not there": {
			[]string{"controller", "--cloud-provider=kwok", "--kubeconfig", good, "--instance-types-file-path", filepath.Join(dir, "no-types")}, 1, []string{filepath.Join(dir, "no-types"), "no such file"},
		},
		"an instance-type file that is not JSON": {
			[]string{"controller", "--cloud-provider=kwok", "--kubeconfig", good, "--instance-types-file-path", file("types1", "[{")}, 1, []string{filepath.Join(dir, "types1")},
		},
		"an instance type without cpu": {
			[]string{"controller", "--cloud-provider=kwok", "--kubeconfig", good, "--instance-types-file-path", file("types2", `[{"name": "small", "architecture": "amd64", "operatingSystems": ["linux"], "offerings": [], "resources": {"memory": "1Gi"}}]`)},
			1,
			[]string{filepath.Join(dir, "types2"), "small"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, test.args...)
			if got := p.awaitEnd(); got != test.status {
				t.Errorf("exit status is %d, want %d", got, test.status)
			}
			lines := p.errorLines()
			if len(lines) != 1 || !strings.HasPrefix(lines[0], "dovetail: ") {
				t.Fatalf("stderr has %d lines, want one:\n%s", len(lines), p)
			}
			for _, want := range test.says {
				if !strings.Contains(lines[0], want) {
					t.Errorf("the line is %q; it should have %s", lines[0], want)
				}
			}
		})
	}
}

// TestTheControllerOutlivesItsCluster runs one process through everything that heals: an
// API server that is away at first, definitions that are missing, and an API server that
// goes away for longer than the lease lasts.
func TestTheControllerOutlivesItsCluster(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	if err := cluster.Stop(); err != nil {
		t.Fatal(err)
	}
	p := controller(t, cluster.Kubeconfig)

	awaitWaiting(t, p, "connection refused")
	if lines := p.errors(); len(lines) != 1 {
		t.Errorf("with the API server away it writes %d errors, want one:\n%s", len(lines), p)
	}

	if err := cluster.Start(); err != nil {
		t.Fatal(err)
	}
	awaitWaiting(t, p, "NodePool.karpenter.sh/v1", "NodeClaim.karpenter.sh/v1", "KWOKNodeClass.karpenter.kwok.sh/v1alpha1", "dovetail crds | kubectl apply")

	installDefinitions(t, c)
	installPool(t, c, chaosCPUs)
	deploy(t, c, 5)
	awaitRunning(t, c, 5)
	// An API server that is starting may also be seen listening and not answering, and with some of the definitions.
	lines := p.errors()
	again := slices.CompactFunc(slices.Clone(lines), func(a, b entry) bool { return a.Error == b.Error })
	if len(again) < len(lines) || slices.ContainsFunc(lines, func(e entry) bool { return e.Message != waiting }) {
		t.Errorf("on the way to a cluster in order it wrote other errors than what it waited for, or one twice:\n%s", p)
	}

	before := len(p.errors())
	cluster.Kill()
	awaitWaiting(t, p, "connection refused")
	// What it was just writing may fail with it, and client-go says which answer broke off.
	ordinary := []string{waiting, "starting over", "Reconciler error", "Unexpected error when reading response body"}
	if lines := p.errors()[before:]; slices.ContainsFunc(lines, func(e entry) bool { return !slices.Contains(ordinary, e.Message) }) {
		t.Errorf("about an API server that went away it says more than that:\n%s", p)
	}
	if err := cluster.Start(); err != nil {
		t.Fatal(err)
	}
	deploy(t, c, 10)
	awaitRunning(t, c, 10)
	if !p.running() {
		t.Fatalf("it ended with status %d:\n%s", p.cmd.ProcessState.ExitCode(), p)
	}
	if status := p.stop(); status != 0 {
		t.Errorf("exit status after SIGTERM is %d, want 0:\n%s", status, p)
	}
}

// waiting is what the log says as long as something is missing that can heal.
const waiting = "waiting for the cluster"

// awaitWaiting returns when the last error in the log is that the process waits for something.
func awaitWaiting(t *testing.T, p *process, wants ...string) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		if !p.running() {
			t.Fatalf("it ended with status %d:\n%s", p.cmd.ProcessState.ExitCode(), p)
		}
		lines := p.errors()
		if len(lines) == 0 {
			return fmt.Errorf("no errors are logged:\n%s", p)
		}
		last := lines[len(lines)-1]
		for _, want := range wants {
			if last.Message != waiting || !strings.Contains(last.Error, want) {
				return fmt.Errorf("the last error is %+v; it should be %q with %q", last, waiting, want)
			}
		}
		return nil
	})
}
