package testkit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	startTimeout = 2 * time.Minute
	stopTimeout  = 30 * time.Second
	tailLines    = 30
)

// Cluster is a running devcluster: a real control plane with KWOK for the kubelets,
// and no nodes yet. It ends when the process that started it ends, however that happens.
type Cluster struct {
	// Dir is the data directory, made for this cluster and removed with it.
	Dir string
	// Kubeconfig is the path of a kubeconfig with all rights. It stays valid over Stop,
	// Kill and Start.
	Kubeconfig string
	// Config is Kubeconfig loaded, with client-side rate limits too high to be felt.
	// Copy it before changing it.
	Config *rest.Config

	binary string
	flags  []string // more flags of devcluster up
	output *tail

	mu   sync.Mutex
	proc *exec.Cmd     // guarded by mu; nil when stopped
	gone chan struct{} // guarded by mu; closed when proc has been reaped
}

// StartCluster starts a devcluster for one test and removes it when the test ends.
// The test is skipped where Binary skips it. It fails, with the end of the cluster's logs,
// when the cluster does not become ready.
// Flags are further ones of devcluster up.
func StartCluster(t testing.TB, flags ...string) *Cluster {
	t.Helper()
	c, remove, err := StartSharedCluster(Binary(t, "devcluster"), flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(remove)
	return c
}

// StartSharedCluster starts a devcluster, whose program Binary returns, for all tests of a
// package. The caller must call remove, which stops the cluster and deletes its directory.
func StartSharedCluster(binary string, flags ...string) (c *Cluster, remove func(), err error) {
	// Not t.TempDir: its paths are long, and are removed while we still write to them.
	dir, err := os.MkdirTemp("", "dc-")
	if err != nil {
		return nil, nil, fmt.Errorf("make data directory: %w", err)
	}
	c = &Cluster{Dir: dir, Kubeconfig: filepath.Join(dir, "kubeconfig"), binary: binary, flags: flags, output: newTail(tailLines)}
	remove = func() {
		c.Kill() // nothing in the directory is kept, so there is nothing to save
		_ = os.RemoveAll(dir)
	}
	if err := c.Start(); err != nil {
		remove()
		return nil, nil, err
	}
	c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		remove()
		return nil, nil, fmt.Errorf("load %s: %w", c.Kubeconfig, err)
	}
	c.Config.QPS, c.Config.Burst = 1000, 2000
	return c, remove, nil
}

// Start brings a stopped or killed cluster back, on the same address and with the same
// objects, and returns when it is ready.
func (c *Cluster) Start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.proc != nil {
		return fmt.Errorf("start devcluster in %s: it runs already", c.Dir)
	}
	// The pid is passed so that a death of ours between fork and exec is seen as well.
	args := append([]string{"up", "--dir", c.Dir, fmt.Sprintf("--with-parent=%d", os.Getpid()), "--scratch"}, c.flags...)
	cmd := exec.Command(c.binary, args...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start devcluster: %w", err)
	}
	cmd.Stderr = c.output
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start devcluster: %w", err)
	}
	ready, gone := make(chan struct{}), make(chan struct{})
	c.proc, c.gone = cmd, gone
	go func() {
		c.follow(stdout, ready)
		_ = cmd.Wait()
		close(gone)
	}()
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	select {
	case <-ready:
		return nil
	case <-gone:
		c.proc = nil
		return fmt.Errorf("devcluster ended before it was ready: %s\n%s", cmd.ProcessState, c.logs())
	case <-timeout.C:
		_ = cmd.Process.Kill()
		<-gone
		c.proc = nil
		return fmt.Errorf("devcluster was not ready after %s\n%s", startTimeout, c.logs())
	}
}

// Stop ends the cluster cleanly and keeps its data for a later Start. It does nothing
// to a cluster that is not running.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.proc == nil {
		return nil
	}
	proc := c.proc
	c.proc = nil
	if err := proc.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop devcluster: %w", err)
	}
	timeout := time.NewTimer(stopTimeout)
	defer timeout.Stop()
	select {
	case <-c.gone:
	case <-timeout.C:
		_ = proc.Process.Kill()
		<-c.gone
		return fmt.Errorf("devcluster did not stop within %s\n%s", stopTimeout, c.logs())
	}
	if !proc.ProcessState.Success() {
		return fmt.Errorf("devcluster ended badly: %s\n%s", proc.ProcessState, c.logs())
	}
	return nil
}

// Kill ends the cluster as SIGKILL does, as a crash of the computer would, and keeps its
// data for a later Start. It does nothing to a cluster that is not running.
func (c *Cluster) Kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.proc == nil {
		return
	}
	_ = c.proc.Process.Kill()
	<-c.gone
	c.proc = nil
}

// follow keeps the end of the cluster's output, and closes ready at its line "ready".
func (c *Cluster) follow(stdout io.Reader, ready chan<- struct{}) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		_, _ = fmt.Fprintln(c.output, lines.Text())
		if ready != nil && lines.Text() == "ready" {
			close(ready)
			ready = nil
		}
	}
	_, _ = io.Copy(io.Discard, stdout) // a line too long for the scanner must not block the child
}

// logs returns the end of what the cluster printed and of its log file.
func (c *Cluster) logs() string {
	file := newTail(tailLines)
	if b, err := os.ReadFile(filepath.Join(c.Dir, "devcluster.log")); err == nil {
		_, _ = file.Write(b)
	}
	return fmt.Sprintf("--- output\n%s\n--- end of devcluster.log\n%s", c.output, file)
}

// tail is a writer that remembers the last lines written to it.
type tail struct {
	mu    sync.Mutex
	limit int
	text  string // guarded by mu
}

func newTail(lines int) *tail { return &tail{limit: lines} }

// Write keeps p's last lines. It never fails.
func (w *tail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := strings.Split(w.text+string(p), "\n")
	if extra := len(lines) - 1 - w.limit; extra > 0 {
		lines = lines[extra:]
	}
	w.text = strings.Join(lines, "\n")
	return len(p), nil
}

// String returns the lines remembered.
func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.TrimSuffix(w.text, "\n")
}
