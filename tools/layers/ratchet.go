package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
)

// measure is one thing that has a limit: how much of a kind something named has.
type measure struct {
	kind, name   string
	value, limit int
}

// key is how a measure is found in the list of those that are allowed.
type key struct{ kind, name string }

const head = `# What exceeds a limit today, and by how much it may: a kind, a name, a value. A value may
# only fall; a line that is no longer needed goes. "make layers REWRITE=1" does both.
`

// readAllowed reads the list of exceedances that are known. No file is an empty list.
func readAllowed(file string) (map[key]int, error) {
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	allowed := map[key]int{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if line := lines.Text(); line != "" && line[0] != '#' {
			var k key
			var value int
			if _, err := fmt.Sscan(line, &k.kind, &k.name, &value); err != nil {
				return nil, fmt.Errorf("%s: %q: %w", file, line, err)
			}
			allowed[k] = value
		}
	}
	return allowed, nil
}

// faults returns what is over its limit and not allowed, or more than is allowed, and
// which lines of the list are not needed.
func faults(all []measure, allowed map[key]int) (found []string) {
	needed := map[key]bool{}
	for _, m := range all {
		if m.value <= m.limit {
			continue
		}
		k := key{m.kind, m.name}
		needed[k] = true
		if most := max(m.limit, allowed[k]); m.value > most {
			found = append(found, fmt.Sprintf("%s of %s: %d, at most %d", m.kind, m.name, m.value, most))
		}
	}
	for k := range allowed {
		if !needed[k] {
			found = append(found, fmt.Sprintf("%s of %s: within the limit; delete its line", k.kind, k.name))
		}
	}
	slices.Sort(found)
	return found
}

// writeAllowed writes the list anew: what is over its limit today.
func writeAllowed(file string, all []measure) error {
	over := slices.DeleteFunc(slices.Clone(all), func(m measure) bool { return m.value <= m.limit })
	slices.SortFunc(over, func(a, b measure) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name)) })
	var b bytes.Buffer
	b.WriteString(head)
	for _, m := range over {
		fmt.Fprintln(&b, m.kind, m.name, m.value)
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}
