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
	"slices"

	"github.com/dovetail-sh/dovetail/internal/decision/record"
)

// File is a journal that was read.
type File struct {
	// Decisions are in the order in which they were made.
	Decisions []Entry
	// Notes say what could not be read.
	Notes []string

	lines *timelines
	// filled: lines has what it will ever have. oldRefusals are those of a file of the older format.
	filled      bool
	oldRefusals []Refused
	pieces      map[int64]*piece
	packer      packer
	// skipped are beginnings of lines that are not read. If there are any, decisions of the older format, which
	// are whole, are not either.
	skipped [][]byte
}

// Entry is one decision of a journal that was read.
type Entry struct {
	Head
	body []byte
	// file has the decision's pieces; nil: the body has all of it. pieces are those when it was read:
	// a later file of a journal may give their numbers to others.
	file   *File
	pieces map[int64]*piece
}

func newFile() *File {
	return &File{lines: newTimelines(statementsMax), pieces: map[int64]*piece{}, packer: newPacker()}
}

// Read reads a journal: one file, a directory with those of a journal, an archive that dovetail report
// wrote, or a single decision as record.Encode wrote it.
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
	f := newFile()
	for _, name := range names {
		if err := f.readFile(name); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// ReadFrom reads a journal from a stream; name says in errors where it is from.
func ReadFrom(r io.Reader, name string) (*File, error) {
	f := newFile()
	if err := f.read(r, name); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *File) readFile(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	defer file.Close() //nolint:errcheck // it was read only
	if ok, err := f.readZip(file, name); ok {
		return err
	}
	return f.read(file, name)
}

func (f *File) read(from io.Reader, name string) error {
	f.pieces = map[int64]*piece{} // each file has its own
	lines := bufio.NewReaderSize(from, 1<<20)
	good, bad := 0, ""
	for n := 1; ; n++ {
		text, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(text)) > 0 && !f.skips(text) {
			torn := errors.Is(err, io.EOF) && !json.Valid(text)
			if why := f.add(text, n == 1); why == nil {
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

// Beginnings of lines.
var (
	piecesBegin   = []byte(`{"format":"` + format + `","pieces":`)   //nolint:gochecknoglobals // a constant
	timelineBegin = []byte(`{"format":"` + format + `","timeline":`) //nolint:gochecknoglobals // a constant
)

func (f *File) skips(text []byte) bool {
	return slices.ContainsFunc(f.skipped, func(begin []byte) bool { return bytes.HasPrefix(text, begin) })
}

// add takes one line in.
func (f *File) add(text []byte, first bool) error {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return err
	}
	isOlder := l.Format == olderFormat
	switch {
	case !isOlder && l.Format != format && first:
		return f.addRecord(text, l.Format)
	case !isOlder && l.Format != format:
		return fmt.Errorf("the format is %q; this program reads %q and %q", l.Format, format, olderFormat)
	case l.Decision != nil && isOlder && len(f.skipped) > 0:
	case l.Decision != nil:
		l.Decision.Again = max(l.Decision.Again, 0)
		e := Entry{Head: *l.Decision, body: l.Body}
		if !isOlder {
			e.file, e.pieces = f, f.pieces
		}
		f.Decisions = append(f.Decisions, e)
	case l.Same != nil:
		f.again(l.Same)
	case l.Landed != nil:
		if e, err := f.Find(l.Landed.ID); err == nil { // its file may be gone
			e.Landed = append(e.Landed, l.Landed.LaunchOutcome)
		}
	case l.Timeline > 0:
		return f.addStatements(l.Body)
	case len(l.Pieces) > 0:
		return f.addPieces(l.Pieces)
	default:
		f.oldRefusals = append(f.oldRefusals, l.Refusals...)
	}
	return nil
}

func (f *File) again(s *same) {
	for i := len(f.Decisions) - 1; i >= 0; i-- {
		if e := &f.Decisions[i]; e.ID == s.ID {
			e.Again, e.Until = e.Again+min(max(s.Again, 0), math.MaxInt64-e.Again), s.Until
			for _, id := range s.Also {
				e.also(id)
			}
			return
		}
	}
}

func (f *File) addPieces(list []writtenPiece) error {
	for _, w := range list {
		p := &piece{number: w.Number, hasDictionary: w.Dictionary, body: w.Body}
		if w.Base != 0 {
			if p.base = f.pieces[w.Base]; p.base == nil {
				return fmt.Errorf("piece %d is made from piece %d, which is not there", w.Number, w.Base)
			}
			if p.depth() > basesMax {
				return fmt.Errorf("piece %d is made from more than %d others", w.Number, basesMax)
			}
		}
		f.pieces[w.Number] = p
	}
	return nil
}

// addStatements takes statements in. One that is there already has perhaps been said again.
func (f *File) addStatements(body []byte) error {
	text, err := expand(body)
	if err != nil {
		return fmt.Errorf("unpack statements: %w", err)
	}
	var list []writtenStatement
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	for i := range list {
		w := &list[i]
		l, _ := f.lines.of(w.identity)
		l.facts, l.pool = w.Facts, w.Pool
		at := slices.IndexFunc(l.statements, func(e *statement) bool { return e.loop == w.Loop && e.what == w.What && e.first.Equal(w.First) })
		if at < 0 {
			at = len(l.statements)
			l.statements = append(l.statements, &statement{of: l, loop: w.Loop, first: w.First, what: w.What})
			f.lines.count++
		}
		e := l.statements[at]
		e.last, e.times, e.decision, e.details, e.why.Reason, e.ends = w.Last, max(w.Times, 1), w.Decision, w.Details, w.Reason, w.Ends
	}
	f.lines.prune()
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
	f.Decisions = append(f.Decisions, Entry{Head: headOf(d, ID{Number: 1}, ""), body: body})
	return nil
}

// ErrNoSnapshot is returned where only the plan of a decision is there.
var ErrNoSnapshot = errors.New("its snapshot is no longer there, so it can be read but not made again")

// Decision unpacks the decision. With ErrNoSnapshot it returns what there is of it.
func (e *Entry) Decision() (*record.Decision, error) {
	text, err := expand(e.body)
	if err != nil {
		return nil, fmt.Errorf("unpack decision %s: %w", e.ID, err)
	}
	if e.file == nil {
		d, err := record.Decode(text)
		if err != nil {
			return nil, fmt.Errorf("decision %s: %w", e.ID, err)
		}
		return d, nil
	}
	if e.NoSnapshot {
		return e.withoutSnapshot(text)
	}
	d, err := record.Read(text, func(number int64) ([]byte, error) {
		p := e.pieces[number]
		if p == nil {
			return nil, ErrNoSnapshot
		}
		return e.file.packer.textOf(p)
	})
	if errors.Is(err, ErrNoSnapshot) {
		return e.withoutSnapshot(text)
	}
	if err != nil {
		return nil, fmt.Errorf("decision %s: %w", e.ID, err)
	}
	return d, nil
}

// Plan unpacks the decision without its snapshot, as far as that is in pieces: that is quick.
func (e *Entry) Plan() (*record.Decision, error) {
	if e.file == nil {
		return e.Decision()
	}
	text, err := expand(e.body)
	if err != nil {
		return nil, fmt.Errorf("unpack decision %s: %w", e.ID, err)
	}
	d, err := record.ReadPlan(text)
	if err != nil {
		return nil, fmt.Errorf("decision %s: %w", e.ID, err)
	}
	return d, nil
}

// Whole unpacks the decision, and says whether its snapshot is there.
func (e *Entry) Whole() (d *record.Decision, hasSnapshot bool, err error) {
	d, err = e.Decision()
	if errors.Is(err, ErrNoSnapshot) {
		return d, false, nil
	}
	return d, err == nil, err
}

func (e *Entry) withoutSnapshot(text []byte) (*record.Decision, error) {
	d, err := record.ReadPlan(text)
	if err != nil {
		return nil, fmt.Errorf("decision %s: %w", e.ID, err)
	}
	return d, fmt.Errorf("decision %s: %w", e.ID, ErrNoSnapshot)
}

// Whole returns the newest decision of an ID with its snapshot; nil: that is not kept any more.
func (f *File) Whole(id ID) (*record.Decision, error) {
	e, err := f.Find(id)
	if err != nil {
		return nil, err
	}
	d, hasSnapshot, err := e.Whole()
	if err != nil || !hasSnapshot {
		return nil, err
	}
	return d, nil
}

// Find returns the newest decision of an ID.
func (f *File) Find(id ID) (*Entry, error) {
	for i := range slices.Backward(f.Decisions) {
		if f.Decisions[i].names(id) {
			return &f.Decisions[i], nil
		}
	}
	if n := len(f.Decisions); n > 0 {
		return nil, fmt.Errorf("decision %s: %w; there are %s to %s", id, ErrNoDecision, f.Decisions[0].ID, f.Decisions[n-1].ID)
	}
	return nil, fmt.Errorf("decision %s: %w; the journal is empty", id, ErrNoDecision)
}
