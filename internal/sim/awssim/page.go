package awssim

import (
	"fmt"
)

// answer writes a list under a name, and the token of the next page.
func answer(name string, items list, next string) fields {
	return fields{{name, items}, {"nextToken", next}}
}

// described is what describeAll must know of a kind of thing.
type described[T any] struct {
	key      func(T) string
	tags     func(T) map[string]string
	property func(it T, filter string) ([]string, bool)
	write    func(T) fields
}

// describeAll answers a Describe operation: it selects, cuts a page and writes.
func describeAll[T any](c *call, set string, most int, all []T, d described[T]) (any, error) {
	if err := dryRun(c); err != nil {
		return nil, err
	}
	var found []T
	filters := c.form.list("Filter")
	for _, it := range all {
		ok, err := selects(filters, d.tags(it), func(name string) ([]string, bool) { return d.property(it, name) })
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, it)
		}
	}
	found, next, err := page(c, found, d.key, c.form.number(0, "MaxResults"), most)
	if err != nil {
		return nil, err
	}
	var items list
	for _, it := range found {
		items = append(items, d.write(it))
	}
	return answer(set, items, next), nil
}

func noTags[T any](T) map[string]string { return nil }

// byID returns the things that a request names, or all; code is for those that are not there.
func byID[T any](ids []string, all map[string]T, code, what string) ([]T, error) {
	var out []T
	if len(ids) == 0 {
		for _, v := range all {
			out = append(out, v)
		}
		return out, nil
	}
	for _, id := range ids {
		v, ok := all[id]
		if !ok {
			return nil, fail(code, "The %s '%s' does not exist", what, id)
		}
		out = append(out, v)
	}
	return out, nil
}

// text returns a field's text, or the first text of a list.
func (f fields) text(name string) string {
	for _, g := range f {
		if l, ok := g.value.(list); ok && g.name == name {
			return fmt.Sprint(l[0])
		}
		if g.name == name {
			return fmt.Sprint(g.value)
		}
	}
	return ""
}

func orDefault(text, or string) string {
	if text == "" {
		return or
	}
	return text
}
