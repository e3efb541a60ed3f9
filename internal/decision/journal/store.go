package journal

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
)

const (
	// planOverhead is about what a decision takes in memory besides its bytes.
	planOverhead = 400
	// plansShare is which part of the memory plans may take; the pieces may take what is left.
	plansShare = 4
	// dropShare: the snapshots of one decision in so many go at once, because it takes long to find what nobody
	// needs any more.
	dropShare = 16
	// tooLargeFor is for how many decisions no snapshot is kept after one that alone was too large.
	tooLargeFor = 100
)

// store has the newest decisions: the plans of all, and for the newer of them the pieces of which
// their snapshots consist.
type store struct {
	memory int64
	kept   []*kept // oldest first
	bytes  int64   // of kept
	pieces *pieces
	writer *record.Writer
	// noSnapshots is for how many decisions no snapshot is kept.
	noSnapshots int
}

// kept is one decision in memory.
type kept struct {
	head Head
	body []byte
	// round is the round in which its pieces were used.
	round int64
}

func (k *kept) size() int64 { return int64(len(k.body)) + planOverhead }

func (k *kept) line() *line { return &line{Decision: &k.head, Body: k.body} }

func newStore(memory int64) store {
	p := newPieces()
	return store{memory: memory, pieces: p, writer: record.NewWriter(p)}
}

// encode writes a decision, and puts into the pieces what it needs of them.
func (s *store) encode(d *record.Decision, head Head) (*kept, error) {
	s.pieces.begin()
	if s.noSnapshots > 0 {
		s.noSnapshots--
		head.NoSnapshot = true
	}
	if head.NoSnapshot {
		short := *d
		short.Snapshot, short.Memory = &cluster.Snapshot{At: d.At()}, disrupt.Memory{}
		d = &short
	}
	text, err := s.writer.Write(d)
	if err != nil {
		return nil, err
	}
	body, err := compress(text)
	if err != nil {
		return nil, fmt.Errorf("compress decision of %s: %w", d.Loop, err)
	}
	return &kept{head, body, s.pieces.round}, nil
}

// add adds a decision that was encoded.
func (s *store) add(k *kept) {
	s.kept = append(s.kept, k)
	s.bytes += k.size()
}

// trim brings the store below its bound: the oldest snapshots go first, their plans later.
func (s *store) trim() {
	for len(s.kept) > 0 && (len(s.kept) > decisionsMax || s.bytes > s.memory/plansShare) {
		s.bytes -= s.kept[0].size()
		s.kept = slices.Delete(s.kept, 0, 1)
	}
	for s.pieces.bytes > 0 && s.pieces.bytes+s.bytes > s.memory {
		first := slices.IndexFunc(s.kept, func(k *kept) bool { return !k.head.NoSnapshot })
		if first < 0 {
			s.pieces.drop(s.pieces.round + 1)
			return
		}
		going := max(1, (len(s.kept)-first)/dropShare)
		for _, k := range s.kept[first:min(first+going, len(s.kept))] {
			k.head.NoSnapshot = true
		}
		if first+going >= len(s.kept) {
			s.noSnapshots = tooLargeFor
			s.pieces.drop(s.pieces.round + 1)
			return
		}
		s.pieces.drop(s.kept[first+going].round)
	}
}

// find returns the newest decision of an ID; nil: it is not there.
func (s *store) find(id ID) *kept {
	for _, k := range slices.Backward(s.kept) {
		if k.head.names(id) {
			return k
		}
	}
	return nil
}

// all returns the decisions.
func (s *store) all() []kept {
	out := make([]kept, len(s.kept))
	for i, k := range s.kept {
		out[i] = *k
	}
	return out
}

// piecesOf returns the pieces that a decision needs, those that others are made from before them.
func (s *store) piecesOf(k *kept) ([]*piece, error) {
	if k.head.NoSnapshot {
		return nil, nil
	}
	return neededBy(k.body, s.pieces.all, &s.pieces.packer)
}

// neededBy returns the pieces that a decision needs.
func neededBy(body []byte, all map[int64]*piece, p *packer) ([]*piece, error) {
	text, err := expand(body)
	if err != nil {
		return nil, err
	}
	needed := map[int64]*piece{}
	_, err = record.Read(text, func(number int64) ([]byte, error) {
		one := all[number]
		if one == nil {
			return nil, ErrNoSnapshot
		}
		for q := one; q != nil; q = q.base {
			needed[q.number] = q
		}
		return p.textOf(one)
	})
	if err != nil {
		return nil, err
	}
	return sorted(needed), nil
}

// linesFor returns the lines of a file that has other decisions: the newest decision, and the pieces of it
// that the file lacks. If they are longer than most, the decision is written without its snapshot.
func (s *store) linesFor(k *kept, file, most int64) ([]byte, error) {
	s.pieces.propagate()
	var missing []*piece
	size := int64(0)
	for _, p := range s.pieces.all {
		if p.used == k.round && p.file != file {
			missing, size = append(missing, p), size+p.size()*4/3
		}
	}
	slices.SortFunc(missing, func(a, b *piece) int { return cmp.Compare(a.number, b.number) })
	written := *k
	if size > most {
		missing, written.head.NoSnapshot = nil, true
	}
	lines, err := pieceLines(missing)
	if err != nil {
		return nil, err
	}
	for _, p := range missing {
		p.file = file
	}
	decision, err := written.line().bytes()
	return append(lines, decision...), err
}
