// Package home is one cluster's data directory: who holds it, which port it has, its
// certificates and the kubeconfigs made from them.
//
// Everything in a home survives the process, SIGKILL included, so that the next `up`
// resumes the same cluster: what is made once (certificates, port) is written beside its
// place and renamed into it, and what can be derived (kubeconfigs) is written at every start.
//
// Read home.go, then lock.go, port.go, pki.go, kubeconfig.go.
package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// FreeBytesMin is the free space without which a cluster is not started: etcd alone
// reserves 64 MB for each of the two journal files it begins with.
const FreeBytesMin = 200 << 20

// socketPathMax is the longest path, in bytes, that a unix socket may have everywhere.
const socketPathMax = 100

// ours are the entries that a cluster makes in its directory, and all that Delete removes.
var ours = []string{"kubeconfig", "port", "devcluster.log", "devcluster.log.1", "conf", "etcd", "pki", "pki.new", "run"}

// Home is a data directory held by this process.
type Home struct {
	// Dir is the absolute path of the directory.
	Dir string

	lock    *os.File
	sockets string // directory of the unix sockets; Dir/run, or a short one when that is too long
}

// Path returns the path of a file in the directory.
func (h *Home) Path(parts ...string) string { return filepath.Join(h.Dir, filepath.Join(parts...)) }

// Socket returns a path for a unix socket, short enough for the kernel.
func (h *Home) Socket(name string) string { return filepath.Join(h.sockets, name) }

// Kubeconfig returns the path of the kubeconfig for the user of the cluster in dir.
func Kubeconfig(dir string) string { return filepath.Join(dir, "kubeconfig") }

// Open makes the directory if need be and takes it for this process. The error is a
// *HeldError when another process has it. Close gives it back.
func Open(dir string) (*Home, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", dir, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	lock, err := acquire(dir)
	if err != nil {
		return nil, err
	}
	h := &Home{Dir: dir, lock: lock, sockets: filepath.Join(dir, "run")}
	if err := h.furnish(); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// furnish checks the space and makes the inner directories, which only the owner may
// enter: the sockets give access to etcd and the files to the cluster.
func (h *Home) furnish() error {
	free, err := freeBytes(h.Dir)
	if err != nil {
		return err
	}
	if err := checkSpace(h.Dir, free); err != nil {
		return err
	}
	// A process that was killed left its sockets.
	if err := os.RemoveAll(h.Path("run")); err != nil {
		return fmt.Errorf("remove old sockets: %w", err)
	}
	for _, name := range []string{"run", "conf", "etcd"} {
		if err := os.MkdirAll(h.Path(name), 0o700); err != nil {
			return fmt.Errorf("make directory in %s: %w", h.Dir, err)
		}
	}
	if len(h.Socket("etcd-peer.sock")) <= socketPathMax {
		return nil
	}
	h.sockets, err = os.MkdirTemp("/tmp", "devcluster-run-")
	if err != nil {
		return fmt.Errorf("make a directory with a short path for sockets: %w", err)
	}
	return nil
}

// Close gives the directory back. Its data stays. Closing twice is harmless.
func (h *Home) Close() {
	_ = os.RemoveAll(h.sockets)
	_ = h.lock.Close()
}

// Delete removes the data of a stopped cluster, and the directory too when nothing else
// is in it. Other people's files are left alone. A missing directory is success.
func Delete(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lock, err := acquire(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	for _, name := range ours {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("delete data of %s: %w", dir, err)
		}
	}
	if err := os.Remove(lock.Name()); err != nil {
		return fmt.Errorf("delete data of %s: %w", dir, err)
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, syscall.ENOTEMPTY) {
		return fmt.Errorf("delete %s: %w", dir, err)
	}
	return nil
}

// freeBytes returns the space that an ordinary user may still fill below dir.
func freeBytes(dir string) (uint64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("read free space of %s: %w", dir, err)
	}
	return st.Bavail * uint64(st.Bsize), nil
}

func checkSpace(dir string, free uint64) error {
	if free >= FreeBytesMin {
		return nil
	}
	return fmt.Errorf("%s: %d MB free, devcluster needs %d MB: free some space or pass --dir on another disk", dir, free>>20, FreeBytesMin>>20)
}

// writeFile replaces a file as a whole: a reader, or a start after a crash, sees the old
// content or the new.
func writeFile(path string, content []byte) error {
	temp := path + ".new"
	if err := os.WriteFile(temp, content, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(temp, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
