package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	clusterPatience = 2 * time.Minute
	stopPatience    = 40 * time.Second
)

// findDevcluster returns the path of the binary. The error says how to get one.
func findDevcluster(path string) (string, error) {
	if path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("--devcluster: %w", err)
		}
		return path, nil
	}
	own, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find devcluster: %w", err)
	}
	path = filepath.Join(filepath.Dir(own), "devcluster")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("find devcluster: there is no %s: run make build, or give --devcluster", path)
	}
	return path, nil
}

// devcluster is the control plane, as a child process.
type devcluster struct {
	versions, kubeconfig string

	dir    string
	cmd    *exec.Cmd
	stderr *tail
	gone   chan struct{} // closed when cmd has been reaped
}

// startDevcluster returns when the control plane is ready. If it ends later without having
// been stopped, fail is called. Its data outlives a kill -9 of this process only with keep.
func startDevcluster(ctx context.Context, binary, dir string, keep bool, fail context.CancelCauseFunc) (*devcluster, error) {
	d := &devcluster{dir: dir, stderr: newTail(), gone: make(chan struct{})}
	// It sees by its parent's pid that we are gone, however that happens.
	d.cmd = exec.Command(binary, "up", "--dir", dir, fmt.Sprintf("--with-parent=%d", os.Getpid()), fmt.Sprintf("--scratch=%t", !keep))
	// A Ctrl-C reaches us alone: the controller has to end first.
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	d.cmd.Stderr = d.stderr
	stdout, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	if err := d.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	ready := make(chan struct{})
	go func() {
		d.follow(stdout, ready)
		_ = d.cmd.Wait()
		close(d.gone)
		fail(d.ended())
	}()
	timeout := time.NewTimer(clusterPatience)
	defer timeout.Stop()
	select {
	case <-ready:
		return d, nil
	case <-d.gone:
		return nil, d.ended()
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), d.stop())
	case <-timeout.C:
		return nil, errors.Join(fmt.Errorf("devcluster was not ready after %s; its log is %s", clusterPatience, d.logPath()), d.stop())
	}
}

// follow reads what the child prints, and closes ready at its line "ready".
func (d *devcluster) follow(stdout io.Reader, ready chan<- struct{}) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if ready == nil {
			continue
		}
		if v, ok := strings.CutPrefix(lines.Text(), "devcluster: "); ok {
			d.versions = v
		}
		if k, ok := strings.CutPrefix(lines.Text(), "kubeconfig "); ok {
			d.kubeconfig = k
		}
		if lines.Text() == "ready" {
			close(ready)
			ready = nil
		}
	}
}

func (d *devcluster) ended() error {
	text := fmt.Sprintf("devcluster ended by itself (%s; its log is %s) %s", d.cmd.ProcessState, d.logPath(), d.stderr)
	return errors.New(strings.TrimSpace(text))
}

func (d *devcluster) logPath() string { return filepath.Join(d.dir, "devcluster.log") }

// stop ends the control plane and returns when it is gone.
func (d *devcluster) stop() error {
	_ = d.cmd.Process.Signal(syscall.SIGTERM) // an error means that it is gone
	timeout := time.NewTimer(stopPatience)
	defer timeout.Stop()
	select {
	case <-d.gone:
		return nil
	case <-timeout.C:
		_ = d.cmd.Process.Kill()
		<-d.gone
		return fmt.Errorf("devcluster did not stop within %s and was killed", stopPatience)
	}
}
