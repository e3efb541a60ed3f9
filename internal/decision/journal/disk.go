package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// segments is how many files a journal on disk consists of when it is full: the oldest
	// goes as a whole.
	segments = 8
	// suffix is that of the files; their names sort by age.
	suffix = ".dovetail-journal"
)

// disk is the files of a journal, of which the newest is written.
type disk struct {
	dir   string
	bytes int64
	now   func() time.Time

	file    *os.File // nil: none yet
	size    int64
	lastNum int64 // the name of the newest file

	// own are the files that this process wrote, read how long the others were when they were read.
	own  map[string]bool
	read map[string]int64

	reading sync.Mutex // held while files are searched for a decision
}

// openDisk returns the journal in a directory, which is made if it is not there. What is there is never
// written to again.
func openDisk(dir string, size int64, now func() time.Time) (*disk, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the journal's directory: %w", err)
	}
	probe, err := os.CreateTemp(dir, "probe-*")
	if err != nil {
		return nil, fmt.Errorf("write to the journal's directory: %w", err)
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return nil, fmt.Errorf("write to the journal's directory: %w", err)
	}
	d := &disk{dir: dir, bytes: size, now: now, own: map[string]bool{}, read: map[string]int64{}}
	files, err := filesOf(dir)
	if err != nil {
		return nil, err
	}
	if n := len(files); n > 0 { // names sort by age even when the clock was set back
		_, _ = fmt.Sscanf(filepath.Base(files[n-1]), "%d", &d.lastNum)
	}
	return d, nil
}

// filesOf returns the files of a journal, oldest first.
func filesOf(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the journal's files: %w", err)
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), suffix) {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	slices.Sort(files)
	return files, nil
}

// write appends the lines that build makes for a file, in a new file when the newest is large enough. A new
// file begins with the lines that head returns.
func (d *disk) write(build func(file int64) ([]byte, error), head func() ([]byte, error)) error {
	written, err := build(d.lastNum)
	if err != nil {
		return err
	}
	if d.file == nil || d.size+int64(len(written)) > d.bytes/segments {
		if written, err = d.next(build, head); err != nil {
			return err
		}
	}
	// One call, so that a crash cuts off the last lines at most.
	n, err := d.file.Write(written)
	d.size += int64(n)
	if err != nil {
		err = errors.Join(fmt.Errorf("write %s: %w", d.file.Name(), err), d.close())
	}
	return err
}

// next begins a new file, and removes the oldest ones as far as the bound asks. It returns the lines that
// build makes for it.
func (d *disk) next(build func(file int64) ([]byte, error), head func() ([]byte, error)) ([]byte, error) {
	if err := d.close(); err != nil {
		return nil, err
	}
	d.lastNum = max(d.lastNum+1, d.now().UnixMilli())
	written, err := build(d.lastNum)
	if err != nil {
		return nil, err
	}
	first, err := head()
	if err != nil {
		return nil, err
	}
	if err := d.prune(int64(len(first)) + int64(len(written))); err != nil {
		return nil, err
	}
	name := filepath.Join(d.dir, fmt.Sprintf("%015d%s", d.lastNum, suffix))
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("begin a journal file: %w", err)
	}
	d.file, d.own[name] = f, true
	n, err := f.Write(first)
	d.size = int64(n)
	if err != nil {
		err = errors.Join(fmt.Errorf("write %s: %w", name, err), d.close())
	}
	return written, err
}

// prune removes the oldest files until one of a segment's size, or of more bytes, has room.
func (d *disk) prune(more int64) error {
	files, err := filesOf(d.dir)
	if err != nil {
		return err
	}
	sizes, total := make([]int64, len(files)), int64(0)
	for i, name := range files {
		info, err := os.Stat(name)
		if err != nil {
			return fmt.Errorf("look at a journal file: %w", err)
		}
		sizes[i] = info.Size()
		total += sizes[i]
	}
	room := max(d.bytes/segments, more)
	for i := 0; i < len(files) && total+room > d.bytes; i++ {
		if err := os.Remove(files[i]); err != nil {
			return fmt.Errorf("remove the oldest journal file: %w", err)
		}
		delete(d.own, files[i])
		delete(d.read, files[i])
		total -= sizes[i]
	}
	return nil
}

func (d *disk) close() error {
	if d.file == nil {
		return nil
	}
	f := d.file
	d.file, d.size = nil, 0
	if err := f.Close(); err != nil {
		return fmt.Errorf("close %s: %w", f.Name(), err)
	}
	return nil
}
