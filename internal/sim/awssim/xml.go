package awssim

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// fields is an XML element's content in order; list is a set of <item> elements, members
// one of <member> (IAM). Values that are nil, empty texts, empty lists and empty fields
// are left out.
type (
	field struct {
		name  string
		value any
	}
	fields  []field
	list    []any
	members []any
	// verbatim is a text that is written when it is empty, too.
	verbatim string
)

// appendXML writes one element.
func appendXML(b *bytes.Buffer, name string, value any) {
	var text string
	switch v := value.(type) {
	case nil:
		return
	case fields:
		writeElement(b, name, len(v) == 0, func() {
			for _, f := range v {
				appendXML(b, f.name, f.value)
			}
		})
		return
	case list:
		writeElement(b, name, len(v) == 0, func() {
			for _, it := range v {
				appendXML(b, "item", it)
			}
		})
		return
	case members:
		writeElement(b, name, len(v) == 0, func() {
			for _, it := range v {
				appendXML(b, "member", it)
			}
		})
		return
	case verbatim:
		b.WriteString("<" + name + ">")
		_ = xml.EscapeText(b, []byte(v))
		b.WriteString("</" + name + ">")
		return
	case string:
		text = v
	case time.Time:
		if !v.IsZero() {
			text = stamp(v)
		}
	case float64:
		text = strconv.FormatFloat(v, 'f', -1, 64)
	default:
		text = fmt.Sprint(v)
	}
	if text == "" {
		return
	}
	writeElement(b, name, false, func() {
		// A buffer takes all that is written to it.
		_ = xml.EscapeText(b, []byte(text))
	})
}

func writeElement(b *bytes.Buffer, name string, empty bool, content func()) {
	if empty {
		return
	}
	b.WriteString("<" + name + ">")
	content()
	b.WriteString("</" + name + ">")
}

// stamp writes a time as AWS does.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// texts makes a list of strings.
func texts(values []string) list {
	var out list
	for _, v := range values {
		out = append(out, v)
	}
	return out
}

// tagSet writes tags in the order of their keys.
func tagSet(tags map[string]string) list {
	var out list
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, fields{{"key", k}, {"value", verbatim(tags[k])}})
	}
	return out
}
