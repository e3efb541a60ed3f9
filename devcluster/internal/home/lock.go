package home

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// HeldError says that a live process has the directory.
type HeldError struct {
	Dir string
	PID int
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("%s is in use by a running devcluster, pid %d: run `devcluster down --dir %s` first, or pass another --dir", e.Dir, e.PID, e.Dir)
}

// The lock is a POSIX record lock on DIR/lock. The kernel drops it when its process ends,
// however that happens, so that a stale lock cannot exist, and tells others the pid of its
// holder without their taking it. Such a lock also goes when its process closes *any*
// descriptor of the file: nothing else here may open the file while the lock is held.

func lockPath(dir string) string { return filepath.Join(dir, "lock") }

// acquire takes the lock of an existing directory.
func acquire(dir string) (*os.File, error) {
	f, err := os.OpenFile(lockPath(dir), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	want := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
	err = syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &want)
	if err == nil {
		return f, nil
	}
	defer f.Close()
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		pid, _, err := holder(f)
		if err != nil {
			return nil, err
		}
		return nil, &HeldError{Dir: dir, PID: pid}
	}
	return nil, fmt.Errorf("lock data directory %s: %w", dir, err)
}

// Holder returns the pid of the process that runs the cluster in dir; ok is false when
// none does. It must not be called by that process.
func Holder(dir string) (pid int, ok bool, err error) {
	f, err := os.Open(lockPath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("read lock of data directory: %w", err)
	}
	defer f.Close()
	return holder(f)
}

func holder(f *os.File) (pid int, ok bool, err error) {
	l := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &l); err != nil {
		return 0, false, fmt.Errorf("read lock %s: %w", f.Name(), err)
	}
	return int(l.Pid), l.Type != syscall.F_UNLCK, nil
}
