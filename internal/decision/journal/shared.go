package journal

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/dovetail-sh/dovetail/internal/decision/record"
)

// Shared is a decision to be written for others. The head is that of its entry; the decision has a snapshot. Either may
// have other names than in the journal that it is from.
type Shared struct {
	Head
	*record.Decision
}

// WriteShared writes decisions, the oldest first, in the form of a file, with what they say of each subject.
func WriteShared(w io.Writer, list []Shared) error {
	s, said := newStore(math.MaxInt64), newTimelines(statementsMax)
	for i := range list {
		h, d := &list[i].Head, list[i].Decision
		head := headOf(d, h.ID, h.Written)
		head.Again, head.Until = h.Again, h.Until
		k, err := s.encode(d, head)
		if err != nil {
			return err
		}
		s.add(k)
		until := h.At
		if h.Again > 0 {
			until = h.Until
		}
		said.decided(d, saying{loop: d.Loop, at: h.At, until: until, times: 1 + h.Again, decision: h.ID})
	}
	statements, err := timelineLine(said.all())
	if err != nil {
		return err
	}
	pieces, err := pieceLines(s.pieces.list())
	if err != nil {
		return err
	}
	if _, err := w.Write(append(statements, pieces...)); err != nil {
		return err
	}
	for _, k := range s.kept {
		if err := writeLine(w, k.line()); err != nil {
			return err
		}
	}
	return nil
}

// Suffix is how the names of journal files end.
const Suffix = suffix

// zipped is how a zip archive begins: dovetail report writes one, which has a journal in it.
var zipped = []byte("PK\x03\x04") //nolint:gochecknoglobals // a constant

// readZip reads the journals in an archive; ok: it is one.
func (f *File) readZip(file *os.File, name string) (ok bool, err error) {
	begin := make([]byte, len(zipped))
	if _, err := file.ReadAt(begin, 0); err != nil || !bytes.Equal(begin, zipped) {
		return false, nil //nolint:nilerr // whatever it is, it is read as a journal
	}
	info, err := file.Stat()
	if err != nil {
		return true, fmt.Errorf("read journal: %w", err)
	}
	archive, err := zip.NewReader(file, info.Size())
	if err != nil {
		return true, fmt.Errorf("read journal %s: %w", name, err)
	}
	found := false
	for _, entry := range archive.File {
		if filepath.Ext(entry.Name) != suffix {
			continue
		}
		found = true
		in, err := entry.Open()
		if err != nil {
			return true, fmt.Errorf("read journal %s: %w", name, err)
		}
		err = f.read(in, name+":"+entry.Name)
		_ = in.Close() // it was read only
		if err != nil {
			return true, err
		}
	}
	if !found {
		return true, fmt.Errorf("read journal %s: there is no *%s in it", name, suffix)
	}
	return true, nil
}
