package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/dovetail-sh/dovetail/internal/decision/record"
)

// File is a journal that was read.
type File struct {
	// Decisions are in the order in which they were made.
	Decisions []Entry
	// Refusals are those of before the first decision, and of decisions that are no longer
	// there.
	Refusals []Refused
	// Notes say what could not be read.
	Notes []string
}

// Entry is one decision of a journal that was read.
type Entry struct {
	Head
	body []byte
}

// Read reads a journal: one file, or a directory with those of a journal, or a single
// decision as record.Encode wrote it.
func Read(path string) (*File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	names := []string{path}
	if info.IsDir() {
		if names, err = filesOf(path); err != nil {
			return nil, err
		}
		if len(names) == 0 {
			return nil, fmt.Errorf("read journal %s: there is no *%s in it", path, suffix)
		}
	}
	f, index := &File{}, newRefusals(refusalsMax)
	for _, name := range names {
		if err := f.readFile(name, index); err != nil {
			return nil, err
		}
	}
	f.Refusals = index.list()
	return f, nil
}

// ReadFrom reads a journal from a stream; name says in errors where it is from.
func ReadFrom(r io.Reader, name string) (*File, error) {
	f, index := &File{}, newRefusals(refusalsMax)
	if err := f.read(r, name, index); err != nil {
		return nil, err
	}
	f.Refusals = index.list()
	return f, nil
}

func (f *File) readFile(name string, index *refusals) error {
	file, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	defer file.Close() //nolint:errcheck // it was read only
	return f.read(file, name, index)
}

func (f *File) read(from io.Reader, name string, index *refusals) error {
	lines := bufio.NewReaderSize(from, 1<<20)
	good, bad := 0, ""
	for n := 1; ; n++ {
		text, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(text)) > 0 {
			torn := errors.Is(err, io.EOF) && !json.Valid(text)
			if why := f.add(text, index, n == 1); why == nil {
				good++
			} else if bad == "" {
				bad = fmt.Sprintf("%s:%d: %v", name, n, why)
				if torn {
					bad = fmt.Sprintf("%s:%d: the last line was cut short, and is left out", name, n)
				}
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read journal %s: %w", name, err)
		}
	}
	switch {
	case good == 0 && bad != "":
		return fmt.Errorf("read journal %s; this is no journal of dovetail", bad)
	case bad != "":
		f.Notes = append(f.Notes, bad)
	}
	return nil
}

// add takes one line in.
func (f *File) add(text []byte, index *refusals, first bool) error {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return err
	}
	switch {
	case l.Format != format && first:
		return f.addRecord(text, l.Format)
	case l.Format != format:
		return fmt.Errorf("the format is %q; this program reads %q", l.Format, format)
	case l.Decision != nil:
		l.Decision.Again = max(l.Decision.Again, 0)
		f.Decisions = append(f.Decisions, Entry{*l.Decision, l.Body})
	case l.Same != nil:
		for i := len(f.Decisions) - 1; i >= 0; i-- {
			if e := &f.Decisions[i]; e.ID == l.Same.ID {
				e.Again, e.Until = e.Again+min(max(l.Same.Again, 0), math.MaxInt64-e.Again), l.Same.Until
				break
			}
		}
	default:
		index.merge(l.Refusals)
	}
	return nil
}

// addRecord takes a decision in that stands alone.
func (f *File) addRecord(text []byte, is string) error {
	d, err := record.Decode(text)
	if err != nil {
		if is != "" {
			return err
		}
		return fmt.Errorf("it has no format; this program reads %q", format)
	}
	body, err := compress(text)
	if err != nil {
		return err
	}
	f.Decisions = append(f.Decisions, Entry{headOf(d, 1, ""), body})
	return nil
}

// Decision unpacks the decision.
func (e *Entry) Decision() (*record.Decision, error) {
	text, err := expand(e.body)
	if err != nil {
		return nil, fmt.Errorf("unpack decision %d: %w", e.ID, err)
	}
	d, err := record.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("decision %d: %w", e.ID, err)
	}
	return d, nil
}

// mentions reports, without reading the decision, whether it may be about a name.
func (e *Entry) mentions(name string) (bool, error) {
	text, err := expand(e.body)
	if err != nil {
		return false, fmt.Errorf("unpack decision %d: %w", e.ID, err)
	}
	quoted, err := json.Marshal(name)
	if err != nil {
		return false, err
	}
	return bytes.Contains(text, quoted), nil
}

// Find returns the decision with an id.
func (f *File) Find(id int64) (*Entry, error) {
	for i := range f.Decisions {
		if f.Decisions[i].ID == id {
			return &f.Decisions[i], nil
		}
	}
	if n := len(f.Decisions); n > 0 {
		return nil, fmt.Errorf("decision %d: %w; there are %d to %d", id, ErrNoDecision, f.Decisions[0].ID, f.Decisions[n-1].ID)
	}
	return nil, fmt.Errorf("decision %d: %w; the journal is empty", id, ErrNoDecision)
}
