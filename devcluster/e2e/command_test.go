package e2e

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestUpTellsItsStoryAndTakesOneProcessPerDirectory(t *testing.T) {
	t.Parallel()
	c := up(t, shortDir(t))
	mustMatch(t, c.out.String(), `(?m)\Adevcluster: Kubernetes v1\.37\.1, etcd v3\.7\.0, KWOK v0\.8\.0$`)
	mustMatch(t, c.out.String(), `(?m)^ +\d+\.\d\ds  kube-apiserver is ready$`)
	mustMatch(t, c.out.String(), `\nkubeconfig `+c.kubeconfig()+`\nready\n\z`)

	second := run(t, "up", "--dir", c.dir)
	mustMatch(t, second.out, fmt.Sprintf(`in use by a running devcluster, pid %d: run .devcluster down --dir`, c.cmd.Process.Pid))
	if second.status != 1 {
		t.Errorf("second up: exit status %d, want 1", second.status)
	}
}

func TestStatusAndDown(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	if got := run(t, "status", "--dir", dir); got.status != 3 || !strings.HasPrefix(got.out, "stopped") {
		t.Errorf("status before up: %+v", got)
	}
	c := up(t, dir)
	got := run(t, "status", "--dir", dir)
	if got.status != 0 {
		t.Errorf("status while up: exit status %d", got.status)
	}
	mustMatch(t, got.out, fmt.Sprintf(`(?s)\Arunning +pid %d\ndirectory +%s\nkubeconfig +%s\nserver +https://127.0.0.1:\d+\nversion +Kubernetes v1\.37\.1\nnodes +0\npods +0\n\z`, c.cmd.Process.Pid, dir, c.kubeconfig()))
	if got := run(t, "status", "-q", "--dir", dir); got.out != c.kubeconfig()+"\n" {
		t.Errorf("status -q: %+v", got)
	}
	if got := run(t, "down", "--dir", dir); got.status != 0 {
		t.Errorf("down: %+v", got)
	}
	if status := c.awaitEnd(); status != 0 {
		t.Errorf("up ended with status %d after down:\n%s", status, c.out)
	}
	if got := run(t, "down", "--dir", dir, "--delete"); got.status != 0 {
		t.Errorf("down --delete: %+v", got)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory after --delete: %v", err)
	}
}

func TestTwoClustersAtOnceAreStrangers(t *testing.T) {
	t.Parallel()
	long := filepath.Join(shortDir(t), strings.Repeat("a-long-name", 12))
	a, b := up(t, shortDir(t)), up(t, long)
	if a.config().Host == b.config().Host {
		t.Fatalf("both are at %s", a.config().Host)
	}
	if _, err := a.client().CoreV1().Nodes().Create(t.Context(), fakeNode("n1", "4"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	nodes, err := b.client().CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 0 {
		t.Errorf("nodes of the other: %v, %v", nodes.Items, err)
	}
	wrong := a.config()
	wrong.Host = b.config().Host
	if got := get(wrong); got == nil {
		t.Error("the kubeconfig of one opens the other")
	}
}

func TestTakenPort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	got := run(t, "up", "--dir", shortDir(t), "--port", port)
	if got.status != 1 || !strings.HasPrefix(got.out, "devcluster: port "+port+" on 127.0.0.1 is taken: stop what listens there") {
		t.Errorf("up on a taken port: %+v", got)
	}
}

func TestMistakesAreToldInOneLine(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"unknown flag":               {[]string{"up", "--prot", "1"}, "unknown flag: --prot"},
		"unknown command":            {[]string{"upp"}, "unknown command"},
		"data directory is a file":   {[]string{"up", "--dir", file}, "make data directory"},
		"data directory not allowed": {[]string{"up", "--dir", "/proc/devcluster"}, "/proc/devcluster"},
		"no configuration there":     {[]string{"up", "--dir", shortDir(t), "--scheduler-config", file + "-none"}, "--scheduler-config: open "},
		"no stages there":            {[]string{"up", "--dir", shortDir(t), "--stages", t.TempDir()}, "no *.yaml there"},
		"selector that is none":      {[]string{"up", "--dir", shortDir(t), "--node-selector", "a=b=c"}, "--node-selector"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run(t, tt.args...)
			if got.status != 1 || strings.Count(got.out, "\n") != 1 || !strings.Contains(got.out, tt.want) {
				t.Errorf("devcluster %v: %+v, want status 1 and one line with %q", tt.args, got, tt.want)
			}
		})
	}
}

// TestUpEndsWithItsParent kills a shell that has started a cluster.
func TestUpEndsWithItsParent(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	out := &output{}
	parent := exec.Command("sh", "-c", `"$0" up --with-parent --scratch --dir "$1" & wait`, binary(t), dir)
	parent.Stdout = out
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = exec.Command(binary(t), "down", "--dir", dir).Run() }) // when this test fails
	eventually(t, func() error {
		if !strings.HasSuffix(out.String(), "\nready\n") {
			return errors.New("not ready: " + out.String())
		}
		return nil
	})
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if got := run(t, "status", "--dir", dir); got.status != 3 {
			return fmt.Errorf("still there: %+v", got)
		}
		return nil
	})
	_ = parent.Wait() // returns when the last holder of its stdout has ended
	mustMatch(t, out.String(), `s  stopped\n\z`)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the scratch directory after its parent's end: %v", err)
	}
}

func TestUpDoesNotStartWithoutItsParent(t *testing.T) {
	t.Parallel()
	got := run(t, "up", "--dir", shortDir(t), "--with-parent=1")
	if strings.Contains(got.out, "ready\n") || got.status != 0 {
		t.Errorf("up for a parent that is gone: %+v", got)
	}
}
