package journal

import (
	"io"
	"math"

	"github.com/dovetail-sh/dovetail/internal/decision/record"
)

// WriteOne writes one decision in the form of a file, with what it says of each subject. The head is that of its
// entry, and the decision has a snapshot; both may have other names than the journal that they are from.
func WriteOne(w io.Writer, h Head, d *record.Decision) error {
	head := headOf(d, h.ID, h.Written)
	head.Again, head.Until = h.Again, h.Until
	s := newStore(math.MaxInt64)
	k, err := s.encode(d, head)
	if err != nil {
		return err
	}
	pieces, err := pieceLines(s.pieces.list())
	if err != nil {
		return err
	}
	until := h.At
	if h.Again > 0 {
		until = h.Until
	}
	said := newTimelines(statementsMax)
	said.decided(d, saying{loop: d.Loop, at: h.At, until: until, times: 1 + h.Again, decision: h.ID})
	statements, err := timelineLine(said.all())
	if err != nil {
		return err
	}
	decision, err := k.line().bytes()
	if err != nil {
		return err
	}
	for _, lines := range [][]byte{statements, pieces, decision} {
		if _, err := w.Write(lines); err != nil {
			return err
		}
	}
	return nil
}
