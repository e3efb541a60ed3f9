package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	startTimeout = 90 * time.Second
	waitTimeout  = 60 * time.Second
)

// binary returns the path of the program under test.
func binary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("DEVCLUSTER_BIN")
	if path == "" {
		path = "../../bin/devcluster"
	}
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run make build", err)
	}
	return path
}

// shortDir returns a directory with a path short enough for sockets.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "dce-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// result is how a finished command ended.
type result struct {
	out    string // stdout and stderr
	status int
}

// run runs devcluster to its end.
func run(t *testing.T, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary(t), args...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("devcluster %v: %v", args, err)
	}
	return result{out: string(out), status: cmd.ProcessState.ExitCode()}
}

// output collects what a running process prints.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// cluster is a running `devcluster up`.
type cluster struct {
	t    *testing.T
	dir  string
	cmd  *exec.Cmd
	out  *output
	gone chan struct{} // closed when cmd has been reaped
}

// up starts a cluster and waits until it is ready.
func up(t *testing.T, dir string, args ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: dir, out: &output{}, gone: make(chan struct{})}
	c.cmd = exec.Command(binary(t), append([]string{"up", "--with-parent", "--dir", dir}, args...)...)
	c.cmd.Stdout, c.cmd.Stderr = c.out, c.out
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = c.cmd.Wait(); close(c.gone) }()
	t.Cleanup(c.kill)
	eventually(t, func() error {
		select {
		case <-c.gone:
			t.Fatalf("devcluster ended: %s\n%s", c.cmd.ProcessState, c.out)
		default:
		}
		if !strings.HasSuffix(c.out.String(), "\nready\n") {
			return errors.New("not ready: " + c.out.String())
		}
		return nil
	})
	return c
}

func (c *cluster) kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

func (c *cluster) kill() {
	_ = c.cmd.Process.Kill()
	<-c.gone
}

// awaitEnd returns the exit status.
func (c *cluster) awaitEnd() int {
	c.t.Helper()
	select {
	case <-c.gone:
	case <-time.After(waitTimeout):
		c.t.Fatalf("devcluster did not end:\n%s", c.out)
	}
	return c.cmd.ProcessState.ExitCode()
}

func (c *cluster) terminate() int {
	c.t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
	return c.awaitEnd()
}

// config is the kubeconfig as it is on disk now.
func (c *cluster) config() *rest.Config {
	c.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig())
	if err != nil {
		c.t.Fatal(err)
	}
	config.QPS = -1
	return config
}

func (c *cluster) client() *kubernetes.Clientset {
	c.t.Helper()
	client, err := kubernetes.NewForConfig(c.config())
	if err != nil {
		c.t.Fatal(err)
	}
	return client
}

// eventually polls until check returns nil, and fails with its last error.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not so in time: %v", err)
		}
	}
}

// mustMatch fails unless text matches the regular expression.
func mustMatch(t *testing.T, text, expr string) {
	t.Helper()
	if !regexp.MustCompile(expr).MatchString(text) {
		t.Errorf("got:\n%s\nwant a match of:\n%s", text, expr)
	}
}
