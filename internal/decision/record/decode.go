package record

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"time"
)

// depthMax bounds how deep values may be within one another: a verdict has verdicts, and a stack
// that is full ends the process.
const depthMax = 1000

// decoder reads what encoder wrote.
type decoder struct {
	json   *json.Decoder
	tables []rows
	depth  int
	older  older
	// pieces reads what has a piece of its own; nil: nothing has.
	pieces *reader
}

// rows are the values of one table.
type rows struct {
	table
	values []reflect.Value
}

func newDecoder(text []byte) *decoder {
	d := &decoder{json: json.NewDecoder(bytes.NewReader(text))}
	d.json.UseNumber()
	for _, t := range shared() {
		d.tables = append(d.tables, rows{table: t})
	}
	return d
}

// document reads a document of the given format into v, which is a pointer.
func (d *decoder) document(format, name string, v any) error {
	if err := d.open('{'); err != nil {
		return err
	}
	for d.json.More() {
		key, err := d.text()
		if err != nil {
			return err
		}
		switch key {
		case "format":
			if err := d.format(format); err != nil {
				return err
			}
		case name:
			if err := d.read(reflect.ValueOf(v).Elem()); err != nil {
				return fmt.Errorf("%s%w", name, err)
			}
		default:
			if err := d.table(key); err != nil {
				return fmt.Errorf("%s%w", key, err)
			}
		}
	}
	return d.close()
}

func (d *decoder) format(want string) error {
	got, err := d.text()
	if err == nil && got != want {
		err = fmt.Errorf("the format is %q; this program reads %q", got, want)
	}
	return err
}

func (d *decoder) table(name string) error {
	name = cmp.Or(renamedTables[name], name)
	for i := range d.tables {
		t := &d.tables[i]
		if t.name != name {
			continue
		}
		if err := d.open('['); err != nil {
			return err
		}
		for d.json.More() {
			v := reflect.New(t.kind).Elem()
			if err := d.whole(v); err != nil {
				return fmt.Errorf("[%d]%w", len(t.values), err)
			}
			t.values = append(t.values, v)
		}
		return d.close()
	}
	return errors.New(": there is no such table")
}

// read reads the next value into v; of what is shared, the index.
func (d *decoder) read(v reflect.Value) error {
	if d.pieces != nil {
		if ok, err := d.pieces.own(d, v); ok {
			return err
		}
	}
	for i := range d.tables {
		if d.tables[i].kind == v.Type() {
			return d.find(&d.tables[i], v)
		}
	}
	return d.whole(v)
}

func (d *decoder) find(t *rows, v reflect.Value) error {
	tok, err := d.json.Token()
	if err != nil || tok == nil { // null: a nil pointer
		return wrap(err)
	}
	n, ok := tok.(json.Number)
	at, err := strconv.Atoi(n.String())
	if !ok || err != nil || at < 0 || at >= len(t.values) {
		return fmt.Errorf(": %v is not the index of one of %d %s", tok, len(t.values), t.name)
	}
	v.Set(t.values[at])
	return nil
}

func (d *decoder) whole(v reflect.Value) error {
	if d.depth++; d.depth > depthMax {
		return fmt.Errorf(": it is deeper than %d values", depthMax)
	}
	defer func() { d.depth-- }()
	if own := v.Addr().Interface(); v.Kind() != reflect.Pointer {
		switch own := own.(type) {
		case *time.Time:
			return wrap(d.json.Decode(own))
		case json.Unmarshaler, encoding.TextUnmarshaler:
			return wrap(d.json.Decode(own))
		}
	}
	if v.Kind() == reflect.Struct {
		return d.structure(v)
	}
	tok, err := d.json.Token()
	if err != nil || tok == nil {
		return wrap(err)
	}
	switch v.Kind() {
	case reflect.Pointer:
		return d.pointer(v, tok)
	case reflect.Slice:
		return d.slice(v, tok)
	case reflect.Map:
		return d.mapping(v, tok)
	default:
		return scalar(v, tok)
	}
}

// pointer reads a struct of which the first token has been read.
func (d *decoder) pointer(v reflect.Value, tok json.Token) error {
	if tok != json.Delim('{') {
		return fmt.Errorf(": %v, want an object", tok)
	}
	p := reflect.New(v.Type().Elem())
	v.Set(p)
	return d.fields(p.Elem())
}

func (d *decoder) structure(v reflect.Value) error {
	if err := d.open('{'); err != nil {
		return err
	}
	return d.fields(v)
}

func (d *decoder) fields(v reflect.Value) error {
	for d.json.More() {
		name, err := d.text()
		if err != nil {
			return err
		}
		if now, was := renamed[v.Type()][name]; was {
			name = now
		}
		to, ok := d.older.field(v.Type(), name)
		if f, is := v.Type().FieldByName(name); is && len(f.Index) == 1 {
			to, ok = v.FieldByIndex(f.Index), true
		}
		if !ok {
			return fmt.Errorf(".%s: there is no such field; a newer version wrote it", name)
		}
		if err := d.read(to); err != nil {
			return fmt.Errorf(".%s%w", name, err)
		}
	}
	return d.close()
}

func (d *decoder) slice(v reflect.Value, tok json.Token) error {
	if tok != json.Delim('[') {
		return fmt.Errorf(": %v, want a list", tok)
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	for d.json.More() {
		v.Grow(1)
		v.SetLen(v.Len() + 1)
		at := v.Index(v.Len() - 1)
		at.SetZero()
		if err := d.read(at); err != nil {
			return fmt.Errorf("[%d]%w", v.Len()-1, err)
		}
	}
	return d.close()
}

func (d *decoder) mapping(v reflect.Value, tok json.Token) error {
	if tok != json.Delim('{') {
		return fmt.Errorf(": %v, want an object", tok)
	}
	v.Set(reflect.MakeMap(v.Type()))
	for d.json.More() {
		key, err := d.text()
		if err != nil {
			return err
		}
		value := reflect.New(v.Type().Elem()).Elem()
		if err := d.read(value); err != nil {
			return fmt.Errorf("[%q]%w", key, err)
		}
		v.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), value)
	}
	return d.close()
}

// scalar sets v, of a kind that one token can hold.
func scalar(v reflect.Value, tok json.Token) error {
	var err error
	text := fmt.Sprint(tok)
	_, isText := tok.(string)
	_, isNumber := tok.(json.Number)
	b, isBool := tok.(bool)
	switch kind := v.Kind(); {
	case kind == reflect.String && isText:
		if now, was := renamedReasons[text]; was && v.Type() == reflect.TypeOf(now) {
			text = string(now)
		}
		v.SetString(text)
	case kind == reflect.Bool && isBool:
		v.SetBool(b)
	case v.CanFloat() && (isNumber || isText):
		var f float64
		f, err = strconv.ParseFloat(text, 64)
		v.SetFloat(f)
	case v.CanInt() && isNumber:
		var n int64
		n, err = strconv.ParseInt(text, 10, v.Type().Bits())
		v.SetInt(n)
	case v.CanUint() && isNumber:
		var n uint64
		n, err = strconv.ParseUint(text, 10, v.Type().Bits())
		v.SetUint(n)
	default:
		err = fmt.Errorf("%v is no %s", tok, v.Type())
	}
	return wrap(err)
}

func (d *decoder) open(delim rune) error {
	tok, err := d.json.Token()
	if err == nil && tok != json.Delim(delim) {
		err = fmt.Errorf("%v, want %c", tok, delim)
	}
	return wrap(err)
}

// close reads the end of what was opened.
func (d *decoder) close() error {
	_, err := d.json.Token()
	return wrap(err)
}

func (d *decoder) text() (string, error) {
	tok, err := d.json.Token()
	s, ok := tok.(string)
	if err == nil && !ok {
		err = fmt.Errorf("%v, want a text", tok)
	}
	return s, wrap(err)
}

// wrap sets an error off from the path of where it is.
func wrap(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF):
		return fmt.Errorf(": %w", io.ErrUnexpectedEOF)
	}
	return fmt.Errorf(": %w", err)
}
