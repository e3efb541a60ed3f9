package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/config/crd"
	"github.com/dovetail-sh/dovetail/examples"
	"github.com/dovetail-sh/dovetail/internal/cli/demo"
	"github.com/dovetail-sh/dovetail/internal/operator"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// patience bounds every wait. It is many times what an idle computer needs.
const patience = 90 * time.Second

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // what a client has to say, its errors say too
	if address := os.Getenv(rackAddress); address != "" {
		if err := serveRackAlone(address, os.Getenv(rackKubeconfig)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// process is one run of dovetail.
type process struct {
	t    testing.TB
	cmd  *exec.Cmd
	gone chan struct{} // closed when cmd has been reaped

	mu             sync.Mutex
	stdout, stderr []string // guarded by mu; lines
}

// start starts dovetail with nothing of our environment that could be a setting. It is
// killed when the test ends.
func start(t testing.TB, args ...string) *process {
	t.Helper()
	return startIn(t, nil, args...)
}

// startIn is start with something in the environment, as "NAME=value".
func startIn(t testing.TB, env []string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(testkit.Binary(t, "dovetail"), args...)
	cmd.Env = append(env, "HOME="+t.TempDir(), "PATH="+os.Getenv("PATH"))
	return follow(t, cmd)
}

// follow starts a process and keeps what it prints. It is killed when the test ends.
func follow(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, gone: make(chan struct{})}
	if p.cmd.SysProcAttr == nil {
		p.cmd.SysProcAttr = withParent()
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan error)
	go func() {
		// The kernel looks at the thread that started the process: it must live as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		var readers sync.WaitGroup
		readers.Go(func() { p.read(stdout, &p.stdout) })
		readers.Go(func() { p.read(stderr, &p.stderr) })
		readers.Wait()
		_ = p.cmd.Wait()
		close(p.gone)
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// controller starts dovetail controller on free ports, with simulated instances.
func controller(t testing.TB, kubeconfig string, args ...string) *process {
	t.Helper()
	return start(t, append([]string{"controller", "--kubeconfig", kubeconfig, "--metrics-port", "0", "--health-probe-port", "0", "--debug-port", "0", "--cloud-provider", "kwok"}, args...)...)
}

func (p *process) read(from io.Reader, into *[]string) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		p.mu.Lock()
		*into = append(*into, lines.Text())
		p.mu.Unlock()
	}
}

// kill ends the process as SIGKILL does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.gone
}

// stop ends the process as Kubernetes does and returns its exit status.
func (p *process) stop() int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	return p.awaitEnd()
}

// awaitEnd returns the exit status.
func (p *process) awaitEnd() int {
	p.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-p.gone:
	case <-timeout.C:
		p.t.Fatalf("dovetail did not end:\n%s", p)
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) running() bool {
	select {
	case <-p.gone:
		return false
	default:
		return true
	}
}

// String returns what the process has printed.
func (p *process) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("--- stdout\n%s\n--- stderr\n%s", strings.Join(p.stdout, "\n"), strings.Join(p.stderr, "\n"))
}

// errorLines returns what has been written to stderr.
func (p *process) errorLines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.stderr...)
}

// entry is one line of the log.
type entry struct {
	Level   string `json:"level"`
	Message string `json:"message"`
	Error   string `json:"error"`
}

// errors returns the lines of the log that say that somebody should act.
func (p *process) errors() []entry {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	var entries []entry
	for _, line := range p.stdout {
		var e entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			p.t.Fatalf("a line of the log is not JSON: %s", line)
		}
		if e.Level == "ERROR" {
			entries = append(entries, e)
		}
	}
	return entries
}

// connect returns a client of the cluster.
func connect(t testing.TB, c *testkit.Cluster) client.Client {
	t.Helper()
	out, err := client.New(c.Config, client.Options{Scheme: operator.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// installDefinitions returns when the cluster knows our kinds.
func installDefinitions(t testing.TB, c client.Client) {
	t.Helper()
	definitions, err := demo.Manifests(crd.Files())
	if err != nil {
		t.Fatal(err)
	}
	if err := demo.Apply(t.Context(), c, definitions...); err != nil {
		t.Fatal(err)
	}
}

// installPool applies the example node class and pool, with nodes of at most so many cpus.
func installPool(t testing.TB, c client.Client, cpuMost int) {
	t.Helper()
	for _, o := range exampleObjects(t) {
		switch o.GetKind() {
		case "NodePool":
			set(t, o, []any{
				map[string]any{"key": "kubernetes.io/os", "operator": "In", "values": []any{"linux"}},
				map[string]any{"key": "kubernetes.io/arch", "operator": "In", "values": []any{"amd64"}},
				map[string]any{"key": "karpenter.kwok.sh/instance-cpu", "operator": "Lte", "values": []any{fmt.Sprint(cpuMost)}},
			}, "spec", "template", "spec", "requirements")
			set(t, o, "1s", "spec", "disruption", "consolidateAfter")
		case "KWOKNodeClass":
		default:
			continue
		}
		if err := demo.Apply(t.Context(), c, o); err != nil {
			t.Fatal(err)
		}
	}
}

// deploy gives the example Deployment so many pods of 1 cpu.
func deploy(t testing.TB, c client.Client, pods int) {
	t.Helper()
	for _, o := range exampleObjects(t) {
		if o.GetKind() != "Deployment" {
			continue
		}
		set(t, o, int64(pods), "spec", "replicas")
		if err := demo.Apply(t.Context(), c, o); err != nil {
			t.Fatal(err)
		}
	}
}

func exampleObjects(t testing.TB) []*unstructured.Unstructured {
	t.Helper()
	objects, err := demo.Manifests(examples.KWOK())
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func set(t testing.TB, o *unstructured.Unstructured, value any, path ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
		t.Fatal(err)
	}
}

// picture is what the API server has of pods and nodes.
type picture struct {
	pods   []corev1.Pod // of the default namespace
	nodes  []corev1.Node
	claims []karpenterv1.NodeClaim
}

// observe lists the Nodes last: a claim in the picture whose Node is not in it has lost it, or has none yet.
func observe(ctx context.Context, c client.Client) (*picture, error) {
	var pods corev1.PodList
	var nodes corev1.NodeList
	var claims karpenterv1.NodeClaimList
	for _, err := range []error{
		c.List(ctx, &pods, client.InNamespace("default")), c.List(ctx, &claims), c.List(ctx, &nodes),
	} {
		if err != nil {
			return nil, err
		}
	}
	return &picture{pods.Items, nodes.Items, claims.Items}, nil
}

func (p *picture) bound() int {
	n := 0
	for i := range p.pods {
		if p.pods[i].Spec.NodeName != "" {
			n++
		}
	}
	return n
}

func (p *picture) running() int {
	n := 0
	for i := range p.pods {
		if p.pods[i].Status.Phase == corev1.PodRunning && p.pods[i].DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// awaitRunning returns when exactly so many pods are there and all run.
func awaitRunning(t testing.TB, c client.Client, pods int) {
	t.Helper()
	awaitRunningWithin(t, patience, c, pods)
}

func awaitRunningWithin(t testing.TB, within time.Duration, c client.Client, pods int) {
	t.Helper()
	testkit.Eventually(t, within, func() error {
		p, err := observe(t.Context(), c)
		if err != nil {
			return err
		}
		if p.running() != pods || len(p.pods) != pods {
			return fmt.Errorf("%d of %d pods run, want %d; %d nodes, %d claims%s", p.running(), len(p.pods), pods, len(p.nodes), len(p.claims), p.waiting())
		}
		return nil
	})
}

// waiting returns what the claims say that are not initialized.
func (p *picture) waiting() string {
	var b strings.Builder
	for i := range p.claims {
		nc := &p.claims[i]
		if is(nc, karpenterv1.ConditionTypeInitialized) && nc.DeletionTimestamp == nil {
			continue
		}
		fmt.Fprintf(&b, "; claim %s, instance %q, deleted %t", nc.Name, nc.Status.ProviderID, nc.DeletionTimestamp != nil)
		for _, c := range nc.Status.Conditions {
			if c.Status != "True" {
				fmt.Fprintf(&b, ", %s %s: %s", c.Type, c.Status, c.Message)
			}
		}
	}
	return b.String()
}

// poolReady returns an error unless all NodePools are ready.
func poolReady(ctx context.Context, c client.Client) error {
	var pools karpenterv1.NodePoolList
	if err := c.List(ctx, &pools); err != nil {
		return err
	}
	for i := range pools.Items {
		if !meta.IsStatusConditionTrue(pools.Items[i].Status.Conditions, karpenterv1.ConditionTypeReady) {
			return fmt.Errorf("NodePool %s is not ready: %+v", pools.Items[i].Name, pools.Items[i].Status.Conditions)
		}
	}
	return nil
}
