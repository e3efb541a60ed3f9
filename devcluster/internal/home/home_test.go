package home

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func open(t *testing.T, dir string) *Home {
	t.Helper()
	h, err := Open(dir)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(h.Close)
	return h
}

func TestSpaceIsCheckedBeforeAnythingStarts(t *testing.T) {
	t.Parallel()
	if err := checkSpace("/data", FreeBytesMin); err != nil {
		t.Errorf("checkSpace with enough: %v", err)
	}
	err := checkSpace("/data", 120<<20)
	if err == nil || !strings.HasPrefix(err.Error(), "/data: 120 MB free, devcluster needs 200 MB") {
		t.Errorf("checkSpace with 120 MB: got %v", err)
	}
}

func TestPortIsKeptUnlessAskedOtherwise(t *testing.T) {
	t.Parallel()
	h := open(t, t.TempDir())
	listenPort := func(ask int) int {
		t.Helper()
		l, err := h.Listen(ask)
		if err != nil {
			t.Fatalf("Listen(%d): %v", ask, err)
		}
		defer l.Close()
		return l.Addr().(*net.TCPAddr).Port
	}
	first := listenPort(PortKept)
	if first < portFirst || first > portLast {
		t.Errorf("a free port is %d, want one of %d to %d", first, portFirst, portLast)
	}
	if got := listenPort(PortKept); got != first {
		t.Errorf("the second time the port is %d, want %d", got, first)
	}
	other := listenPort(PortFree)
	if got := listenPort(PortKept); got != other {
		t.Errorf("after a new free port it is %d, want %d", got, other)
	}
}

func TestTakenPortIsNamed(t *testing.T) {
	t.Parallel()
	h := open(t, t.TempDir())
	l, err := h.Listen(PortKept)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = h.Listen(PortKept)
	want := "port " + strings.TrimPrefix(l.Addr().String(), "127.0.0.1:") + " on 127.0.0.1 is taken"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Listen on a taken port: got %v, want %q", err, want)
	}
}

func TestCredentialsAreMadeOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := open(t, dir)
	now := time.Now()
	write := func(server string) string {
		t.Helper()
		if err := h.WriteCredentials(server, now); err != nil {
			t.Fatalf("WriteCredentials: %v", err)
		}
		b, err := os.ReadFile(Kubeconfig(dir))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	// What a process leaves that was killed while it made the first certificates.
	if err := os.MkdirAll(h.Path("pki.new", "ca.crt"), 0o700); err != nil {
		t.Fatal(err)
	}
	first := write("https://127.0.0.1:1")
	if got := write("https://127.0.0.1:1"); got != first {
		t.Error("the kubeconfig differs after a second start")
	}
	moved := write("https://127.0.0.1:2")
	if want := strings.ReplaceAll(first, "127.0.0.1:1", "127.0.0.1:2"); moved != want {
		t.Error("the kubeconfig differs in more than the port after a start on another port")
	}
}

func TestSocketsHaveShortPathsInALongDirectory(t *testing.T) {
	t.Parallel()
	h := open(t, filepath.Join(t.TempDir(), strings.Repeat("long", 40)))
	for _, name := range []string{"etcd.sock", "etcd-peer.sock"} {
		l, err := net.Listen("unix", h.Socket(name))
		if err != nil {
			t.Errorf("listen on %s: %v", name, err)
			continue
		}
		_ = l.Close()
	}
	h.Close()
	if _, err := os.Stat(filepath.Dir(h.Socket("x"))); !os.IsNotExist(err) {
		t.Errorf("the directory of the sockets is still there: %v", err)
	}
}

func TestDeleteLeavesTheFilesOfOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := open(t, dir)
	if err := h.WriteCredentials("https://127.0.0.1:1", time.Now()); err != nil {
		t.Fatal(err)
	}
	theirs := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(theirs, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h.Close()
	if err := Delete(dir); err != nil {
		t.Fatalf("Delete: %v", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != "notes.txt" {
		t.Errorf("left after Delete: %v, %v", left, err)
	}
	if err := os.Remove(theirs); err != nil {
		t.Fatal(err)
	}
	if err := Delete(dir); err != nil {
		t.Fatalf("second Delete: %v", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
}
