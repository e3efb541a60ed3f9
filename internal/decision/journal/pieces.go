package journal

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/flate"
)

const (
	// pieceOverhead is about what a piece takes in memory besides its bytes and references.
	pieceOverhead = 160
	// pieceMax bounds the text of one piece.
	pieceMax = 64 << 20
	// basesMax is how many pieces a text may be made from, one after the other.
	basesMax = 16
	// A difference from the last text of the name is kept in the place of a text if it has at most so much of it, one from
	// what that text is made from if it has at most siblingMax.
	differenceMax, siblingMax = 0.6, 0.2
	// replacedMost is how many lines in a row are taken for replaced before they are looked for elsewhere.
	replacedMost = 4
	// searchedMost is how many lines are searched one by one for another; more are put into a map first.
	searchedMost = 200
	// level is how thoroughly texts are compressed, of 9.
	level = 2
	// dictionaryMost is how many times as long as what is compressed its dictionary may be: to read it in takes time.
	dictionaryMost = 32
	// textsMax bounds how much text of pieces is remembered while differences are made.
	textsMax = 1 << 20
	// reusedMax bounds the memory that is kept from decision to decision to make differences in.
	reusedMax = 4 << 20
)

// piece is a text that decisions share, compressed, perhaps as a difference from another one.
type piece struct {
	number int64
	base   *piece // nil: none
	body   []byte
	// hasDictionary: the text of base is the dictionary with which the body is compressed.
	hasDictionary bool
	refs          []*piece
	// used is the newest round whose decision needs it. That it needs what a piece refers to is known after propagate only: in
	// most rounds nobody asks.
	used int64
	// file is the newest file on disk that has it.
	file int64
	sum  sum
}

type sum [16]byte

func (p *piece) size() int64 { return int64(len(p.body)) + 8*int64(len(p.refs)) + pieceOverhead }

func (p *piece) depth() int {
	if p.base == nil {
		return 0
	}
	return 1 + p.base.depth()
}

// pass lets what the piece refers to be used as lately as the piece is.
func (p *piece) pass() {
	if p.base != nil && p.base.used < p.used {
		p.base.used = p.used
		p.base.pass()
	}
	for _, r := range p.refs {
		if r.used < p.used {
			r.used = p.used
			r.pass()
		}
	}
}

// pieces are those of the decisions that are kept. It is a record.Pieces.
type pieces struct {
	all   map[int64]*piece
	bySum map[sum]*piece
	// roots are, by name and by kind of name, the texts from which differences are made.
	roots map[string]*piece
	last  int64
	bytes int64
	round int64
	// fresh are those of this round.
	fresh []*piece
	packer
}

func newPieces() *pieces {
	return &pieces{all: map[int64]*piece{}, bySum: map[sum]*piece{}, roots: map[string]*piece{}, packer: newPacker()}
}

// begin begins a round: what one decision needs.
func (s *pieces) begin() {
	s.free()
	s.round++
	s.fresh = s.fresh[:0]
}

// Use implements record.Pieces.
func (s *pieces) Use(number int64) bool {
	p := s.all[number]
	if p != nil {
		p.used = s.round
	}
	return p != nil
}

// Put implements record.Pieces.
func (s *pieces) Put(name string, text []byte, refs []int64) int64 {
	hash := sha256.Sum256(text)
	key := sum(hash[:16])
	if p := s.bySum[key]; p != nil {
		p.used = s.round
		return p.number
	}
	s.last++
	p := &piece{number: s.last, sum: key}
	kind, _, _ := strings.Cut(name, "/")
	var dictionary, changes []byte
	for _, c := range s.candidates(name, kind) {
		from, err := s.textOf(c.base)
		if err != nil {
			continue
		}
		if d := s.difference(from, text); float64(len(d)) < c.most*float64(len(text)) {
			p.base, changes = c.base, d
			if p.hasDictionary = len(from) <= dictionaryMost*len(d); p.hasDictionary {
				dictionary = from
			}
			break
		}
	}
	if p.base == nil {
		changes = s.difference(nil, text)
	}
	for _, r := range refs { // those of the base are used with it
		if to := s.all[r]; to != nil && (p.base == nil || !slices.Contains(p.base.refs, to)) {
			p.refs = append(p.refs, to)
		}
	}
	p.body = s.pack(changes, dictionary)
	s.remember(p, text) // the next text of the name is compared with it
	s.setRoot(name, kind, p)
	s.all[p.number], s.bySum[key] = p, p
	s.bytes += p.size()
	s.fresh = append(s.fresh, p)
	p.used = s.round
	return p.number
}

// candidate is a piece from which a text may be made, if the difference has at most so much of the text.
type candidate struct {
	base *piece
	most float64
}

// candidates returns, in the order of preference, from which pieces a text of the name may be made: from what the last
// one of the name is made from while little has changed, which keeps pieces few steps from a whole text, then from the last
// one, then from a text of the kind.
func (s *pieces) candidates(name, kind string) (list []candidate) {
	if last := s.root(name); last != nil {
		if last.depth() > 1 {
			list = append(list, candidate{last.base, siblingMax})
		}
		if last.depth() < basesMax {
			list = append(list, candidate{last, differenceMax})
		}
	}
	if of := s.root(kind); of != nil && kind != name && of.depth() < basesMax {
		list = append(list, candidate{of, 1})
	}
	return list
}

// root returns the piece from which differences of the name are made; nil: there is none.
func (s *pieces) root(name string) *piece {
	if p := s.roots[name]; p != nil && s.all[p.number] == p {
		return p
	}
	return nil
}

// setRoot lets later texts of the name be kept as differences from the piece.
func (s *pieces) setRoot(name, kind string, p *piece) {
	s.roots[name] = p
	if old := s.roots[kind]; p.base == nil && (old == nil || s.all[old.number] != old) {
		s.roots[kind] = p
	}
}

// propagate makes known which pieces are needed because others refer to them.
func (s *pieces) propagate() {
	for _, p := range s.all {
		p.pass()
	}
}

// drop drops the pieces that no round since the given one needs.
func (s *pieces) drop(since int64) {
	s.propagate()
	for number, p := range s.all {
		if p.used < since {
			s.bytes -= p.size()
			delete(s.all, number)
			delete(s.bySum, p.sum)
		}
	}
	for name, p := range s.roots {
		if p.used < since {
			delete(s.roots, name)
		}
	}
}

// list returns the pieces, those that others are made from before them.
func (s *pieces) list() []*piece { return sorted(s.all) }

func sorted(some map[int64]*piece) []*piece {
	all := make([]*piece, 0, len(some))
	for _, p := range some {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *piece) int { return cmp.Compare(a.number, b.number) })
	return all
}

// packer compresses texts and makes texts of pieces.
type packer struct {
	writer *flate.Writer
	reader io.ReadCloser
	texts  map[*piece][]byte
	held   int
	// These are memory that is used again: what was unpacked and packed last, the lines of both texts, and how they differ.
	in, out    bytes.Buffer
	old, lines [][]byte
	changes    []byte
}

func newPacker() packer {
	return packer{reader: flate.NewReader(bytes.NewReader(nil)), texts: map[*piece][]byte{}}
}

// free gives up the memory that is used again, if a long text has made it large.
func (k *packer) free() {
	const aLine = 24 // bytes, of the slice that is a line
	if k.in.Cap()+k.out.Cap()+cap(k.changes)+aLine*(cap(k.old)+cap(k.lines)) > reusedMax {
		k.in, k.out, k.changes, k.old, k.lines = bytes.Buffer{}, bytes.Buffer{}, nil, nil, nil
	}
}

func (k *packer) pack(text, dictionary []byte) []byte {
	if k.writer == nil { // who only reads needs none
		var err error
		if k.writer, err = flate.NewWriter(nil, level); err != nil {
			panic(err) // the level is a constant
		}
	}
	k.out.Reset()
	k.writer.ResetDict(&k.out, dictionary)
	_, _ = k.writer.Write(text) // into memory
	_ = k.writer.Close()
	return bytes.Clone(k.out.Bytes())
}

// unpack returns what was packed, until the next call.
func (k *packer) unpack(body, dictionary []byte) ([]byte, error) {
	if err := k.reader.(flate.Resetter).Reset(bytes.NewReader(body), dictionary); err != nil { //nolint:forcetypeassert // it says so
		return nil, err
	}
	k.in.Reset()
	_, err := k.in.ReadFrom(io.LimitReader(k.reader, pieceMax+1))
	if err == nil && k.in.Len() > pieceMax {
		err = fmt.Errorf("it has more than %d bytes", pieceMax)
	}
	return k.in.Bytes(), err
}

// textOf returns the text of a piece.
func (k *packer) textOf(p *piece) ([]byte, error) {
	if text, ok := k.texts[p]; ok {
		return text, nil
	}
	var from []byte
	if p.base != nil {
		if p.depth() > basesMax {
			return nil, fmt.Errorf("piece %d is made from more than %d others", p.number, basesMax)
		}
		var err error
		if from, err = k.textOf(p.base); err != nil {
			return nil, err
		}
	}
	var dictionary []byte
	if p.hasDictionary {
		dictionary = from
	}
	changes, err := k.unpack(p.body, dictionary)
	if err != nil {
		return nil, fmt.Errorf("unpack piece %d: %w", p.number, err)
	}
	text, err := k.applied(from, changes)
	if err != nil {
		return nil, fmt.Errorf("piece %d: %w", p.number, err)
	}
	k.remember(p, text)
	return text, nil
}

// remember keeps the text of a piece for a while, unless it is long.
func (k *packer) remember(p *piece, text []byte) {
	if len(text) > textsMax {
		return
	}
	if k.held += len(text); k.held > textsMax {
		clear(k.texts)
		k.held = len(text)
	}
	k.texts[p] = text
}

// copied begins a run of lines that are taken from the other text: its first line and their number
// follow. No line begins so.
const copied = 1

// difference returns how a text is made from another, line by line. That is good until the next call.
func (k *packer) difference(from, text []byte) []byte {
	out := k.changes[:0]
	defer func() { k.changes = out }()
	k.old, k.lines = appendLines(k.old[:0], from), appendLines(k.lines[:0], text)
	old, lines := k.old, k.lines
	if len(from) == 0 {
		old = nil
	}
	var at map[string]int // where the old lines are; most differences are found without
	next := 0             // the line of old that probably comes now
	for i := 0; i < len(lines); {
		first, found := next, next < len(old) && bytes.Equal(lines[i], old[next])
		if !found && len(old) > 0 && !isReplaced(lines[i:], old[min(next, len(old)):]) {
			switch {
			case len(old) <= searchedMost:
				first, found = search(old, next, lines[i])
			case at == nil:
				at = indexOfLines(old)
				fallthrough
			default:
				first, found = at[string(lines[i])]
			}
		}
		if !found {
			out = append(out, lines[i]...)
			i, next = i+1, next+1
			continue
		}
		n := 1
		for i+n < len(lines) && first+n < len(old) && bytes.Equal(lines[i+n], old[first+n]) {
			n++
		}
		out = append(out, copied)
		out = binary.AppendUvarint(out, uint64(first)) //nolint:gosec // an index
		out = binary.AppendUvarint(out, uint64(n))     //nolint:gosec // a count
		i, next = i+n, first+n
	}
	return out
}

// search returns where a line is: at the given place or behind it, if it is there.
func search(in [][]byte, from int, line []byte) (at int, found bool) {
	from = min(from, len(in))
	isIt := func(other []byte) bool { return bytes.Equal(line, other) }
	if at = slices.IndexFunc(in[from:], isIt); at >= 0 {
		return from + at, true
	}
	at = slices.IndexFunc(in[:from], isIt)
	return at, at >= 0
}

func indexOfLines(list [][]byte) map[string]int {
	at := make(map[string]int, len(list))
	for i, line := range list {
		at[string(line)] = i
	}
	return at
}

// appendLines appends the lines of a text, each with its end. What follows the last end is a line, too, empty or not.
func appendLines(to [][]byte, text []byte) [][]byte {
	for {
		end := bytes.IndexByte(text, '\n') + 1
		if end == 0 {
			return append(to, text)
		}
		to, text = append(to, text[:end]), text[end:]
	}
}

// isReplaced reports whether a few lines stand in the place of as many others.
func isReplaced(lines, old [][]byte) bool {
	for k := 1; k <= replacedMost && k < min(len(lines), len(old)); k++ {
		if bytes.Equal(lines[k], old[k]) {
			return true
		}
	}
	return false
}

var errDifference = errors.New("it is made from lines that are not there")

// applied makes the text of which difference returned the changes.
func (k *packer) applied(from, changes []byte) ([]byte, error) {
	k.old = appendLines(k.old[:0], from)
	old, text := k.old, make([]byte, 0, len(from)+len(changes))
	for len(changes) > 0 {
		if changes[0] != copied {
			end := bytes.IndexByte(changes, '\n') + 1
			if end == 0 {
				end = len(changes)
			}
			text, changes = append(text, changes[:end]...), changes[end:]
			continue
		}
		first, n := binary.Uvarint(changes[1:])
		if n <= 0 {
			return nil, errDifference
		}
		count, m := binary.Uvarint(changes[1+n:])
		if m <= 0 || first > uint64(len(old)) || count > uint64(len(old))-first {
			return nil, errDifference
		}
		for _, line := range old[first : first+count] {
			text = append(text, line...)
		}
		if len(text) > pieceMax {
			return nil, fmt.Errorf("it has more than %d bytes", pieceMax)
		}
		changes = changes[1+n+m:]
	}
	return text, nil
}
