package convert

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// at returns the value at a path of maps; nil: there is none.
func at(m map[string]any, path ...string) any {
	var v any = m
	for _, step := range path {
		in, _ := v.(map[string]any)
		v = in[step]
	}
	return v
}

// take removes the value at a dotted path and returns it. It removes the maps that become empty thereby.
func take(m map[string]any, path string) any {
	first, rest, deeper := strings.Cut(path, ".")
	if !deeper {
		v := m[first]
		delete(m, first)
		return v
	}
	in, isMap := m[first].(map[string]any)
	if !isMap {
		return nil
	}
	v := take(in, rest)
	if v != nil && len(in) == 0 {
		delete(m, first)
	}
	return v
}

// put sets a value at a dotted path; nil sets nothing.
func put(m map[string]any, path string, v any) {
	if v == nil {
		return
	}
	first, rest, deeper := strings.Cut(path, ".")
	if !deeper {
		m[first] = v
		return
	}
	in, isMap := m[first].(map[string]any)
	if !isMap {
		in = map[string]any{}
		m[first] = in
	}
	put(in, rest, v)
}

// move says where a field of an older kind is now.
type move struct{ from, to string }

func moveAll(from, to map[string]any, moves []move) {
	for _, m := range moves {
		put(to, m.to, take(from, m.from))
	}
}

var index = regexp.MustCompile(`\[(\d+)\]`)

// remove removes the field at a path as errors of the API have it, as in spec.taints[0].colour.
func remove(v any, path string) {
	steps := strings.Split(index.ReplaceAllString(path, ".$1"), ".")
	for _, step := range steps[:len(steps)-1] {
		switch in := v.(type) {
		case map[string]any:
			v = in[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(in) {
				return
			}
			v = in[i]
		}
	}
	if in, isMap := v.(map[string]any); isMap {
		delete(in, steps[len(steps)-1])
	}
}

// leaves returns the paths of all that is in a value, sorted; a list is one.
func leaves(path string, v any) []string {
	in, isMap := v.(map[string]any)
	if !isMap {
		return []string{path}
	}
	var all []string
	for key, value := range in {
		all = append(all, leaves(path+"."+key, value)...)
	}
	slices.Sort(all)
	return all
}

// seconds returns a number of seconds as a duration; nil: there is no number.
func seconds(v any) any {
	switch n := v.(type) {
	case nil:
		return nil
	case int64, float64:
		return fmt.Sprintf("%vs", n)
	default:
		return fmt.Sprint(v)
	}
}

// words returns the parts of a comma-separated list.
func words(list string) []string {
	var all []string
	for word := range strings.SplitSeq(list, ",") {
		if word = strings.TrimSpace(word); word != "" {
			all = append(all, word)
		}
	}
	return all
}
