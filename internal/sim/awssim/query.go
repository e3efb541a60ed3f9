package awssim

import (
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// form is a Query protocol body as a tree: Filter.1.Value.2=x is x at Filter, 1, Value, 2.
type form struct {
	value    string
	children map[string]*form
}

func parseForm(values url.Values) *form {
	root := &form{}
	for key, vs := range values {
		f := root
		for part := range strings.SplitSeq(key, ".") {
			if f.children == nil {
				f.children = map[string]*form{}
			}
			next := f.children[part]
			if next == nil {
				next = &form{}
				f.children[part] = next
			}
			f = next
		}
		f.value = vs[0]
	}
	return root
}

// at returns the node under the path; an empty one when there is none.
func (f *form) at(path ...string) *form {
	for _, p := range path {
		next := f.children[p]
		if next == nil {
			return &form{}
		}
		f = next
	}
	return f
}

// with returns a copy in which a child is another.
func (f *form) with(name string, child *form) *form {
	children := maps.Clone(f.children)
	if children == nil {
		children = map[string]*form{}
	}
	children[name] = child
	return &form{f.value, children}
}

// listForm returns the node that list reads as these.
func listForm(items []*form) *form {
	f := &form{children: map[string]*form{}}
	for i, item := range items {
		f.children[strconv.Itoa(i+1)] = item
	}
	return f
}

func (f *form) text(path ...string) string { return f.at(path...).value }

func (f *form) flag(path ...string) bool { return f.text(path...) == "true" }

// number returns an integer; or when it is not set.
func (f *form) number(or int, path ...string) int {
	if n, err := strconv.Atoi(f.text(path...)); err == nil {
		return n
	}
	return or
}

func (f *form) isSet(path ...string) bool {
	g := f.at(path...)
	return g.value != "" || len(g.children) > 0
}

// list returns the numbered nodes under the path, in order. AWS Query (IAM) has "member"
// between the name and the number, EC2 has not.
func (f *form) list(path ...string) []*form {
	g := f.at(path...)
	if m := g.children["member"]; m != nil {
		g = m
	}
	var numbers []int
	for k := range g.children {
		if n, err := strconv.Atoi(k); err == nil && strconv.Itoa(n) == k { // not 01
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	var out []*form
	for _, n := range numbers {
		out = append(out, g.children[strconv.Itoa(n)])
	}
	return out
}

func (f *form) texts(path ...string) []string {
	var out []string
	for _, g := range f.list(path...) {
		out = append(out, g.value)
	}
	return out
}

// tags reads a list of Key, Value.
func (f *form) tags(path ...string) map[string]string {
	out := map[string]string{}
	for _, g := range f.list(path...) {
		out[g.text("Key")] = g.text("Value")
	}
	return out
}

// tagsFor returns the tags that the TagSpecifications give to a kind of resource.
func (f *form) tagsFor(kind string) map[string]string {
	for _, g := range f.list("TagSpecification") {
		if g.text("ResourceType") == kind {
			return g.tags("Tag")
		}
	}
	return map[string]string{}
}

// String writes the tree in one line, in order: equal requests are equal texts.
func (f *form) String() string {
	var lines []string
	f.walk("", func(path, value string) { lines = append(lines, path+"="+value) })
	slices.Sort(lines)
	return strings.Join(lines, "&")
}

func (f *form) walk(path string, visit func(path, value string)) {
	if len(f.children) == 0 {
		visit(path, f.value)
	}
	for k, c := range f.children {
		c.walk(path+"."+k, visit)
	}
}

// properties answers what filters ask of a resource. False: there is no such filter.
type properties func(filter string) (values []string, known bool)

// only is a property with one value.
func only(v string) ([]string, bool) { return []string{v}, true }

// selects reports whether a resource passes all filters.
func selects(filters []*form, tags map[string]string, get properties) (bool, error) {
	for _, f := range filters {
		name, wanted := f.text("Name"), f.texts("Value")
		var values []string
		switch key, isTag := strings.CutPrefix(name, "tag:"); {
		case isTag:
			if v, ok := tags[key]; ok {
				values = []string{v}
			}
		case name == "tag-key":
			for k := range tags {
				values = append(values, k)
			}
		default:
			var known bool
			if values, known = get(name); !known {
				return false, fail("InvalidParameterValue", "The filter '%s' is invalid", name)
			}
		}
		if !slices.ContainsFunc(wanted, func(w string) bool {
			return slices.ContainsFunc(values, func(v string) bool { return glob(w, v) })
		}) {
			return false, nil
		}
	}
	return true, nil
}

// glob matches a text against a pattern in which * is any text and ? any character.
func glob(pattern, text string) bool {
	if !strings.ContainsAny(pattern, "*?") {
		return pattern == text
	}
	expr := regexp.QuoteMeta(pattern)
	expr = strings.ReplaceAll(strings.ReplaceAll(expr, `\*`, ".*"), `\?`, ".")
	ok, err := regexp.MatchString("^(?s:"+expr+")$", text)
	return ok && err == nil
}

// page cuts a list to what one answer may hold and returns the token for the rest. The
// token names the operation and the last item given, so it survives changes of the list.
func page[T any](c *call, items []T, key func(T) string, asked, most int) ([]T, string, error) {
	if asked != 0 && (asked < 1 || asked > most) {
		return nil, "", fail("InvalidParameterValue", "Value ( %d ) for parameter maxResults is invalid. Expecting a value between 1 and %d.", asked, most)
	}
	if asked == 0 {
		asked = most
	}
	slices.SortStableFunc(items, func(a, b T) int { return strings.Compare(key(a), key(b)) })
	if c.token != "" {
		raw, err := base64.StdEncoding.DecodeString(c.token)
		operation, last, ok := strings.Cut(string(raw), " ")
		if err != nil || !ok || operation != c.operation {
			return nil, "", &apiError{http.StatusBadRequest, "InvalidNextToken", "The token '" + c.token + "' is invalid"}
		}
		start, _ := slices.BinarySearchFunc(items, last+"\x00", func(it T, k string) int { return strings.Compare(key(it), k) })
		items = items[start:]
	}
	if len(items) <= asked {
		return items, "", nil
	}
	items = items[:asked]
	return items, base64.StdEncoding.EncodeToString([]byte(c.operation + " " + key(items[asked-1]))), nil
}
