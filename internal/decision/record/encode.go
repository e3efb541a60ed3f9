package record

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// shared lists what is written once, in a table, and referred to by its index: pods by
// value, the others by pointer, because pods with the same pointer are one pod
// equivalence class to the core. A table may refer only to those before it.
func shared() []table {
	return []table{
		{name: "pods", kind: reflect.TypeFor[cluster.PodRef]()},
		{name: "types", kind: reflect.TypeFor[*catalog.Type]()},
		{name: "constraints", kind: reflect.TypeFor[*cluster.Constraints]()},
	}
}

// table is the rows of one kind, in the order in which they were first met.
type table struct {
	name string
	kind reflect.Type
	at   map[any]int
	text []byte
}

// encoder writes one value as JSON, and the tables that it refers to.
type encoder struct {
	text   []byte
	tables []table
	forms  map[reflect.Type]form
	// own returns the form of what stands in a piece of its own; nil: of nothing.
	own func(t reflect.Type, whole form) form
	// lines: what is at most linesDepth deep has a line of its own, so that two texts can be compared by lines.
	lines bool
	depth int
}

// linesDepth is how deep values have lines of their own: the fields of a node, and its pods.
const linesDepth = 2

// next separates two values.
func (e *encoder) next() {
	e.text = append(e.text, ',')
	if e.lines && e.depth <= linesDepth {
		e.text = append(e.text, '\n')
	}
}

// form writes a value of one Go type.
type form func(*encoder, reflect.Value)

func newEncoder() *encoder {
	e := &encoder{tables: shared(), forms: map[reflect.Type]form{}}
	for i := range e.tables {
		e.tables[i].at = map[any]int{}
	}
	return e
}

// document returns the value with its tables, as one JSON object. Equal values give equal
// bytes.
func (e *encoder) document(format, name string, v any) []byte {
	e.write(reflect.ValueOf(v))
	body := e.text
	out := append([]byte(`{"format":"`), format...)
	out = append(out, '"')
	for i := range e.tables {
		t := &e.tables[i]
		out = append(out, `,"`+t.name+`":[`...)
		out = append(append(out, t.text...), ']')
	}
	out = append(out, `,"`+name+`":`...)
	return append(append(out, body...), '}')
}

func (e *encoder) write(v reflect.Value) { e.formOf(v.Type())(e, v) }

// formOf returns the form of a type. It panics for a type that has none: what a snapshot
// holds is data, and a test walks all of it.
func (e *encoder) formOf(t reflect.Type) form {
	if f, ok := e.forms[t]; ok {
		return f
	}
	// The type may contain itself: until its form is known, it is looked up when used.
	e.forms[t] = func(e *encoder, v reflect.Value) { e.forms[t](e, v) }
	f := e.make(t)
	for i := range e.tables {
		if e.tables[i].kind == t {
			f = e.sharedForm(i, f)
		}
	}
	if e.own != nil {
		if own := e.own(t, f); own != nil {
			f = own
		}
	}
	e.forms[t] = f
	return f
}

func (e *encoder) make(t reflect.Type) form {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return writeTime
	case t.Implements(reflect.TypeFor[json.Marshaler]()):
		return func(e *encoder, v reflect.Value) { e.marshaled(v.Interface()) }
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) && t.Kind() != reflect.Pointer:
		return func(e *encoder, v reflect.Value) { e.marshaled(v.Interface()) }
	}
	switch t.Kind() {
	case reflect.Bool:
		return func(e *encoder, v reflect.Value) { e.text = strconv.AppendBool(e.text, v.Bool()) }
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return func(e *encoder, v reflect.Value) { e.text = strconv.AppendInt(e.text, v.Int(), 10) }
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return func(e *encoder, v reflect.Value) { e.text = strconv.AppendUint(e.text, v.Uint(), 10) }
	case reflect.Float64:
		return func(e *encoder, v reflect.Value) { e.float(v.Float()) }
	case reflect.String:
		return func(e *encoder, v reflect.Value) { e.string(v.String()) }
	case reflect.Slice:
		return e.sliceForm(t)
	case reflect.Map:
		return e.mapForm(t)
	case reflect.Struct:
		return e.structForm(t)
	case reflect.Pointer:
		of := e.formOf(t.Elem())
		return func(e *encoder, v reflect.Value) {
			if v.IsNil() {
				e.text = append(e.text, "null"...)
				return
			}
			of(e, v.Elem())
		}
	default:
		panic(fmt.Sprintf("record: a snapshot or plan has a %s, which has no written form", t))
	}
}

// sharedForm writes the index of a value in its table, and the value there when it is new.
func (e *encoder) sharedForm(i int, whole form) form {
	return func(e *encoder, v reflect.Value) {
		if v.Kind() == reflect.Pointer && v.IsNil() {
			e.text = append(e.text, "null"...)
			return
		}
		t, key := &e.tables[i], v.Interface()
		n, known := t.at[key]
		if !known {
			n = len(t.at)
			t.at[key] = n
			outer := e.text
			e.text = t.text
			if n > 0 {
				e.text = append(e.text, ',')
			}
			whole(e, v)
			t.text, e.text = e.text, outer
		}
		e.text = strconv.AppendInt(e.text, int64(n), 10)
	}
}

func (e *encoder) sliceForm(t reflect.Type) form {
	of := e.formOf(t.Elem())
	return func(e *encoder, v reflect.Value) {
		if v.IsNil() {
			e.text = append(e.text, "null"...)
			return
		}
		e.text = append(e.text, '[')
		e.depth++
		for i := range v.Len() {
			if i > 0 {
				e.next()
			}
			of(e, v.Index(i))
		}
		e.depth--
		e.text = append(e.text, ']')
	}
}

func (e *encoder) mapForm(t reflect.Type) form {
	if t.Key().Kind() != reflect.String {
		panic(fmt.Sprintf("record: a snapshot or plan has a %s, and only maps by name have a written form", t))
	}
	of := e.formOf(t.Elem())
	return func(e *encoder, v reflect.Value) {
		if v.IsNil() {
			e.text = append(e.text, "null"...)
			return
		}
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		e.text = append(e.text, '{')
		e.depth++
		for i, k := range keys {
			if i > 0 {
				e.next()
			}
			e.string(k.String())
			e.text = append(e.text, ':')
			of(e, v.MapIndex(k))
		}
		e.depth--
		e.text = append(e.text, '}')
	}
}

// structForm writes the fields that are not zero, under their Go names.
func (e *encoder) structForm(t reflect.Type) form {
	type field struct {
		index int
		name  []byte
		form  form
	}
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			panic(fmt.Sprintf("record: %s has the unexported field %s, so it needs a MarshalJSON and an UnmarshalJSON", t, f.Name))
		}
		fields = append(fields, field{i, []byte(`"` + f.Name + `":`), e.formOf(f.Type)})
	}
	return func(e *encoder, v reflect.Value) {
		e.text = append(e.text, '{')
		e.depth++
		first := true
		for i := range fields {
			f := v.Field(fields[i].index)
			if f.IsZero() {
				continue
			}
			if !first {
				e.next()
			}
			first = false
			e.text = append(e.text, fields[i].name...)
			fields[i].form(e, f)
		}
		e.depth--
		e.text = append(e.text, '}')
	}
}

// verdict writes what structForm would, without reflection: a decision of a large cluster has thousands.
func (e *encoder) verdict(v *verdict.Verdict) {
	e.text = append(e.text, '{')
	comma := false
	name := func(is bool, name string) bool {
		if is {
			if comma {
				e.text = append(e.text, ',')
			}
			comma = true
			e.text = append(append(append(e.text, '"'), name...), '"', ':')
		}
		return is
	}
	if name(v.Reason != "", "Reason") {
		e.string(string(v.Reason))
	}
	if name(v.Subject != "", "Subject") {
		e.string(v.Subject)
	}
	if name(v.Detail != "", "Detail") {
		e.string(v.Detail)
	}
	if name(v.Causes != nil, "Causes") {
		e.text = append(e.text, '[')
		for i := range v.Causes {
			if i > 0 {
				e.text = append(e.text, ',')
			}
			e.verdict(&v.Causes[i])
		}
		e.text = append(e.text, ']')
	}
	e.text = append(e.text, '}')
}

func writeTime(e *encoder, v reflect.Value) {
	e.text = append(e.text, '"')
	e.text = v.Interface().(time.Time).UTC().AppendFormat(e.text, time.RFC3339Nano)
	e.text = append(e.text, '"')
}

// float writes a number so that the same one is read; JSON has no word for the infinities.
func (e *encoder) float(f float64) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		e.text = append(append(append(e.text, '"'), strconv.FormatFloat(f, 'g', -1, 64)...), '"')
		return
	}
	e.text = strconv.AppendFloat(e.text, f, 'g', -1, 64)
}

func (e *encoder) string(s string) {
	for i := range len(s) {
		if c := s[i]; c-' ' > '~'-' ' || c == '"' || c == '\\' { // below the space it wraps around
			e.marshaled(s)
			return
		}
	}
	e.text = append(append(append(e.text, '"'), s...), '"')
}

// marshaled writes what encoding/json makes of a value.
func (e *encoder) marshaled(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("record: write %T: %v", v, err))
	}
	e.text = append(e.text, b...)
}
