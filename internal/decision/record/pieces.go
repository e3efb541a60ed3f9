package record

import (
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
)

// piecesFormat is the format of a decision whose snapshot stands elsewhere, in pieces.
const piecesFormat = "dovetail-decision/2"

// Pieces keeps the texts of which snapshots consist. Decisions that follow one another share most.
type Pieces interface {
	// Put keeps a text that refers to other pieces, uses it, and returns its number: equal texts have one. What
	// has the same name probably resembles the text.
	Put(name string, text []byte, refs []int64) int64
	// Use says that the decision at hand needs a piece, with all that it refers to. False: it is not kept.
	Use(number int64) bool
}

// runMax bounds how many pending pods are in one piece; on average there are runMean.
const runMax, runMean = 256, 32

// sharedMax bounds of how many constraints and types the numbers are remembered.
const sharedMax = 50_000

// usualMax bounds, in bytes, what is reserved for a text before it is made.
const usualMax = 16_000

// Writer writes decisions in pieces. What has not changed since the decision before is not written
// again, and of a node that has not changed not even the text is made.
type Writer struct {
	pieces Pieces
	// doc writes decisions, piece the pieces; whole are piece's forms of what has a piece of its own.
	doc, piece *encoder
	whole      map[reflect.Type]form
	// usual is about how long texts of a type are, by the last one.
	usual    map[reflect.Type]int
	samePool equal
	// round counts decisions. refs are those of the piece at hand.
	round int64
	refs  []int64
	nodes map[string]*writtenValue[cluster.Node]
	// order has what is written of the snapshot's nodes, at their places; nil: nothing. Snapshots that follow one another
	// have most nodes at the same places.
	order []*writtenValue[cluster.Node]
	pools map[string]*writtenValue[cluster.Pool]
	// shared are constraints and types by pointer, twins by their text: to the core two pointers to
	// equal constraints are two pod equivalence classes, so they are two pieces.
	shared map[any]*sharedPiece
	twins  map[string][]*sharedPiece
	// deps gathers the constraints and types of the node or NodePool at hand; nil: there is none.
	deps *[]dep
}

// dep is a piece that a node or NodePool refers to, with the pointer that it had.
type dep struct {
	piece *sharedPiece
	owner uintptr
}

// writtenValue is a node or NodePool as it was last written.
type writtenValue[T any] struct {
	value  T
	number int64
	deps   []dep
}

// sharedPiece is the piece of a pointer. In one round it belongs to one pointer, whose address is owner: Writer.shared, and
// the nodes and NodePools that were written, keep it in memory.
type sharedPiece struct {
	number, round int64
	owner         uintptr
}

// NewWriter returns a Writer that has written nothing.
func NewWriter(pieces Pieces) *Writer {
	w := &Writer{pieces: pieces, whole: map[reflect.Type]form{}, usual: map[reflect.Type]int{}, samePool: equalOf(reflect.TypeFor[cluster.Pool]())}
	w.forget()
	w.doc = &encoder{tables: shared()[:1], forms: map[reflect.Type]form{}}
	w.doc.own = func(t reflect.Type, _ form) form {
		w.piece.formOf(t)
		return w.ownForm(t)
	}
	w.piece = &encoder{forms: map[reflect.Type]form{}, lines: true}
	w.piece.own = func(t reflect.Type, whole form) form {
		w.whole[t] = whole
		return w.ownForm(t)
	}
	return w
}

func (w *Writer) forget() {
	w.order = nil
	w.nodes, w.pools = map[string]*writtenValue[cluster.Node]{}, map[string]*writtenValue[cluster.Pool]{}
	w.shared, w.twins = map[any]*sharedPiece{}, map[string][]*sharedPiece{}
}

// Write returns the written form of a decision, and puts into the pieces what it needs of them. The
// reasons for which nodes stay are not in it, only their number and a sum. The error is a bug, as Encode's.
func (w *Writer) Write(d *Decision) (text []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			w.forget()
			err = fmt.Errorf("encode decision of %s: %v", d.Loop, r)
		}
	}()
	if len(w.shared) > sharedMax || len(w.nodes) > 2*len(d.Snapshot.Nodes)+1000 || len(w.pools) > 2*len(d.Snapshot.Pools)+1000 {
		w.forget()
	}
	w.round++
	w.refs = nil
	for i := range w.doc.tables {
		w.doc.tables[i].at, w.doc.tables[i].text = map[any]int{}, nil
	}
	w.doc.text, w.piece.text, w.piece.depth = nil, nil, 0
	w.keepNodes(d.Snapshot)
	short := d.withoutStays()
	return w.doc.document(piecesFormat, "decision", short), nil
}

// ownForm returns the form of what has a piece of its own: the piece's number; nil: it has none.
func (w *Writer) ownForm(t reflect.Type) form {
	number := w.numberOf(t)
	if number == nil {
		return nil
	}
	return func(e *encoder, v reflect.Value) {
		if (v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.IsNil() {
			e.text = append(e.text, "null"...)
			return
		}
		n := number(v)
		if !slices.Contains(w.refs, n) {
			w.refs = append(w.refs, n)
		}
		e.text = strconv.AppendInt(e.text, n, 10)
	}
}

// numberOf returns what puts a value of the type into a piece. Reader.own is its mirror image.
func (w *Writer) numberOf(t reflect.Type) func(reflect.Value) int64 {
	switch {
	case t == reflect.TypeFor[*catalog.Type](), t == reflect.TypeFor[*cluster.Constraints]():
		return w.pointer
	case t == reflect.TypeFor[[]cluster.Node]():
		return w.nodeList
	case t == reflect.TypeFor[[]cluster.Pool]():
		return w.poolList
	case t == reflect.TypeFor[[]cluster.Pod]():
		return w.runs
	case isWholePiece(t):
		return func(v reflect.Value) int64 {
			text, refs := w.textOf(v, t)
			return w.pieces.Put(t.String(), text, refs)
		}
	}
	return nil
}

// isWholePiece reports whether values of the type are a piece each: what rarely changes.
func isWholePiece(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[disrupt.Memory](), reflect.TypeFor[[]cluster.Daemon](), reflect.TypeFor[[]cluster.PodDisruptionBudget](),
		reflect.TypeFor[map[string]map[string]string](), reflect.TypeFor[map[string]bool](), reflect.TypeFor[[]cluster.Buffer]():
		return true
	}
	return false
}

// textOf returns the text of a value's piece, and what it refers to.
func (w *Writer) textOf(v reflect.Value, t reflect.Type) (text []byte, refs []int64) {
	w.piece.formOf(t)
	whole, ok := w.whole[t]
	if !ok {
		whole = w.piece.formOf(t)
	}
	outer, outerRefs, depth := w.piece.text, w.refs, w.piece.depth
	w.piece.text, w.refs, w.piece.depth = make([]byte, 0, w.usual[t]), nil, 0
	whole(w.piece, v)
	text, refs = w.piece.text, w.refs
	w.usual[t] = min(len(text)+len(text)/16, usualMax)
	w.piece.text, w.refs, w.piece.depth = outer, outerRefs, depth
	return text, refs
}

// pointer returns the number of constraints or of a type.
func (w *Writer) pointer(v reflect.Value) int64 {
	p, owner := v.Interface(), v.Pointer()
	s := w.shared[p]
	if s == nil || s.round == w.round && s.owner != owner || !w.pieces.Use(s.number) {
		s = w.newPointer(v, p)
	}
	s.round, s.owner = w.round, owner
	if w.deps != nil && !slices.Contains(*w.deps, dep{s, owner}) {
		*w.deps = append(*w.deps, dep{s, owner})
	}
	return s.number
}

// newPointer finds a piece for a pointer: one of the same text that belongs to no other pointer in this round.
func (w *Writer) newPointer(v reflect.Value, p any) *sharedPiece {
	deps := w.deps
	w.deps = nil
	text, refs := w.textOf(v, v.Type())
	w.deps = deps
	name := v.Type().String()
	if t, ok := p.(*catalog.Type); ok {
		name += "/" + t.Name
	}
	key := name + string(text)
	for i := 0; ; i++ {
		if i == len(w.twins[key]) {
			w.twins[key] = append(w.twins[key], &sharedPiece{round: -1})
		}
		if s := w.twins[key][i]; s.round != w.round || s.owner == v.Pointer() {
			for range i {
				text = append(text, '\n') // white space makes it another text
			}
			s.number = w.pieces.Put(name, text, refs)
			w.shared[p] = s
			return s
		}
	}
}

// keepNodes says of which nodes of the snapshot the pieces are needed again, before any other piece
// is looked for.
func (w *Writer) keepNodes(s *cluster.Snapshot) {
	last := w.order
	w.order = make([]*writtenValue[cluster.Node], len(s.Nodes))
	for i := range s.Nodes {
		n := &s.Nodes[i]
		var had *writtenValue[cluster.Node]
		if i < len(last) && last[i] != nil && last[i].value.Name == n.Name {
			had = last[i]
		} else {
			had = w.nodes[n.Name]
		}
		if had == nil {
			continue
		}
		if sameNode(&had.value, n) && w.keepDeps(had.deps) && w.pieces.Use(had.number) {
			w.order[i] = had
		} else {
			delete(w.nodes, n.Name)
		}
	}
}

// keepDeps says that what a node or NodePool refers to belongs to its pointers in this round; false: one
// belongs to another already.
func (w *Writer) keepDeps(deps []dep) bool {
	for _, d := range deps {
		switch {
		case d.piece.round != w.round:
			d.piece.round, d.piece.owner = w.round, d.owner
		case d.piece.owner != d.owner:
			return false
		}
	}
	return true
}

func (w *Writer) nodeList(v reflect.Value) int64 {
	numbers := make([]int64, v.Len())
	for i := range numbers {
		n := v.Index(i).Addr().Interface().(*cluster.Node) //nolint:forcetypeassert // it is a list of those
		had := w.order[i]
		if had == nil {
			had = &writtenValue[cluster.Node]{value: *n}
			w.deps = &had.deps
			text, refs := w.textOf(v.Index(i), v.Type().Elem())
			w.deps = nil
			had.number = w.pieces.Put("node/"+n.Name, text, refs)
			w.nodes[n.Name], w.order[i] = had, had
		}
		numbers[i] = had.number
	}
	return w.pieces.Put("nodes", listText(numbers), nil) // each is in use already
}

func (w *Writer) poolList(v reflect.Value) int64 {
	numbers := make([]int64, v.Len())
	for i := range numbers {
		p := v.Index(i).Addr().Interface().(*cluster.Pool) //nolint:forcetypeassert // it is a list of those
		had := w.pools[p.Name]
		if had == nil || !w.samePool(reflect.ValueOf(&had.value).Elem(), reflect.ValueOf(p).Elem()) || !w.keepDeps(had.deps) || !w.pieces.Use(had.number) {
			had = &writtenValue[cluster.Pool]{value: *p}
			w.deps = &had.deps
			text, refs := w.textOf(v.Index(i), v.Type().Elem())
			w.deps = nil
			had.number = w.pieces.Put("pool/"+p.Name, text, refs)
			w.pools[p.Name] = had
		}
		numbers[i] = had.number
	}
	return w.pieces.Put("pools", listText(numbers), numbers)
}

// runs puts pending pods into pieces of some each. Where one ends depends on its pods alone, so that
// pods that come and go change few pieces.
func (w *Writer) runs(v reflect.Value) int64 {
	var numbers []int64
	for from := 0; from < v.Len(); {
		to := from
		for to < v.Len() && to-from < runMax {
			p := v.Index(to).Addr().Interface().(*cluster.Pod) //nolint:forcetypeassert // it is a list of those
			to++
			h := fnv.New32a()
			_, _ = h.Write([]byte(p.UID + p.Name))
			if h.Sum32()%runMean == 0 {
				break
			}
		}
		text, refs := w.textOf(v.Slice(from, to), v.Type())
		numbers = append(numbers, w.pieces.Put("pending", text, refs))
		from = to
	}
	return w.pieces.Put("pendings", listText(numbers), numbers)
}

// listText writes numbers, a line each.
func listText(numbers []int64) []byte {
	text := []byte{'['}
	for i, n := range numbers {
		if i > 0 {
			text = append(text, ",\n"...)
		}
		text = strconv.AppendInt(text, n, 10)
	}
	return append(text, ']')
}
