package tui

import (
	"strings"
)

// filter is which rows of a list are shown: those that every term holds for.
type filter []term

// term is one condition of a filter: the row has the text, anywhere or in one field; or has it not.
type term struct {
	field string // pool, reason or the key of a label; empty: any
	label bool   // the field is a label, whose value must be equal
	text  string // in small letters
	not   bool
}

// parseFilter reads a filter as a person types it: words, !word, pool:NAME, reason:NAME, -l KEY=VALUE. What
// is not finished yet holds for all rows.
func parseFilter(text string) filter {
	var f filter
	words := strings.Fields(strings.ToLower(text))
	for i := 0; i < len(words); i++ {
		word := words[i]
		if word == "-l" {
			if i++; i < len(words) {
				f = append(f, labelTerms(words[i])...)
			}
			continue
		}
		t := term{}
		word, t.not = strings.CutPrefix(word, "!")
		for _, field := range []string{"pool", "reason"} {
			if rest, is := strings.CutPrefix(word, field+":"); is {
				t.field, word = field, rest
			}
		}
		if t.text = word; word != "" {
			f = append(f, t)
		}
	}
	return f
}

// labelTerms reads KEY=VALUE, KEY!=VALUE and KEY, with commas between them.
func labelTerms(text string) (f filter) {
	for one := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(one, "=")
		key, not := strings.CutSuffix(key, "!")
		if key != "" {
			f = append(f, term{field: key, label: true, text: strings.TrimPrefix(value, "="), not: not})
		}
	}
	return f
}

// holds reports whether a row is shown.
func (f filter) holds(r *row) bool {
	for i := range f {
		if f[i].holds(r) == f[i].not {
			return false
		}
	}
	return true
}

func (t *term) holds(r *row) bool {
	switch {
	case t.label:
		value, is := r.labels[t.field]
		return is && (t.text == "" || strings.ToLower(value) == t.text)
	case t.field == "pool":
		return strings.Contains(strings.ToLower(r.pool), t.text)
	case t.field == "reason":
		return strings.Contains(strings.ToLower(r.reason), t.text)
	default:
		return strings.Contains(r.searched(), t.text)
	}
}

// unknownLabel returns a label that the filter asks for and that no row has; empty: there is none.
func (f filter) unknownLabel(rows []row) string {
	for i := range f {
		if !f[i].label || len(rows) == 0 {
			continue
		}
		known := false
		for k := range rows {
			if _, is := rows[k].labels[f[i].field]; is {
				known = true
				break
			}
		}
		if !known {
			return f[i].field
		}
	}
	return ""
}
