package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// reader reads what has a piece of its own.
type reader struct {
	piece func(number int64) ([]byte, error)
	// pointers are the constraints and types that were read.
	pointers map[int64]reflect.Value
}

// Read reads what Writer.Write returned. piece returns the text of a piece. The error names the field that is wrong.
func Read(text []byte, piece func(number int64) ([]byte, error)) (*Decision, error) {
	d, from := &Decision{}, newDecoder(text)
	from.tables = from.tables[:1]
	from.pieces = &reader{piece, map[int64]reflect.Value{}}
	if err := from.document(piecesFormat, "decision", d); err != nil {
		return nil, fmt.Errorf("decode decision: %w", err)
	}
	if d.Snapshot == nil {
		return nil, fmt.Errorf("decode decision: it has no Snapshot")
	}
	return d, nil
}

// ReadPlan reads of what Writer.Write returned what is not in pieces: the plan, and of the snapshot its time.
func ReadPlan(text []byte) (*Decision, error) { return Read(text, nil) }

// own reads a value that has a piece of its own; ok: it has.
func (r *reader) own(d *decoder, v reflect.Value) (ok bool, err error) {
	t := v.Type()
	isPointer := t == reflect.TypeFor[*catalog.Type]() || t == reflect.TypeFor[*cluster.Constraints]()
	isList := t == reflect.TypeFor[[]cluster.Node]() || t == reflect.TypeFor[[]cluster.Pool]()
	isRuns := t == reflect.TypeFor[[]cluster.Pod]()
	if !isPointer && !isList && !isRuns && !isWholePiece(t) {
		return false, nil
	}
	var number *int64
	if err := d.json.Decode(&number); err != nil || number == nil {
		return true, wrap(err)
	}
	switch {
	case r.piece == nil:
		return true, nil
	case isPointer:
		return true, r.pointer(d, *number, v)
	case isList, isRuns:
		return true, r.list(d, *number, v, isRuns)
	default:
		return true, r.whole(d, *number, v)
	}
}

func (r *reader) pointer(d *decoder, number int64, v reflect.Value) error {
	known, ok := r.pointers[number]
	if !ok {
		known = reflect.New(v.Type()).Elem()
		if err := r.whole(d, number, known); err != nil {
			return err
		}
		r.pointers[number] = known
	}
	if known.Type() != v.Type() {
		return fmt.Errorf(": piece %d is a %s, not a %s", number, known.Type(), v.Type())
	}
	v.Set(known)
	return nil
}

// list reads a list whose elements, or runs of them, have a piece each.
func (r *reader) list(d *decoder, number int64, v reflect.Value, isRuns bool) error {
	text, err := r.piece(number)
	if err != nil {
		return wrap(err)
	}
	var numbers []int64
	if err := json.Unmarshal(text, &numbers); err != nil {
		return wrap(err)
	}
	all := reflect.MakeSlice(v.Type(), 0, len(numbers))
	for i, n := range numbers {
		one := reflect.New(v.Type().Elem()).Elem()
		if isRuns {
			one = reflect.New(v.Type()).Elem()
		}
		if err := r.whole(d, n, one); err != nil {
			return fmt.Errorf("[%d]%w", i, err)
		}
		if isRuns {
			all = reflect.AppendSlice(all, one)
		} else {
			all = reflect.Append(all, one)
		}
	}
	v.Set(all)
	return nil
}

// whole reads one piece.
func (r *reader) whole(d *decoder, number int64, v reflect.Value) error {
	text, err := r.piece(number)
	if err != nil {
		return wrap(err)
	}
	from := &decoder{json: json.NewDecoder(bytes.NewReader(text)), pieces: r, depth: d.depth}
	from.json.UseNumber()
	return from.whole(v)
}
