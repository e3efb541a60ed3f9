package redact

import (
	_ "embed" // words.txt
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// vocabulary are the words of the sentences that this program writes, a line each.
//
//go:embed words.txt
var vocabulary string

// wordsOfProgram returns the vocabulary as a set.
//
//nolint:gochecknoglobals // a constant
var wordsOfProgram = sync.OnceValue(func() map[string]bool {
	set := map[string]bool{}
	for word := range strings.Lines(vocabulary) {
		set[strings.TrimSpace(word)] = true
	}
	return set
})

var (
	// word is what may be a name, perhaps with its namespace or the domain of a label's key.
	word = regexp.MustCompile(`[\pL\pN_](?:[\pL\pN_./-]*[\pL\pN_])?`)
	// amount is a number with its unit, a duration, a time or the ID of a decision. Nine digits are fewer than an
	// account's number has.
	amount = regexp.MustCompile(`^(?:\d{1,9}(?:\.\d{1,9})?(?:[numkKMGTPE]i?|B|h|s|ms|d|rd|th|x)?|(?:\d+(?:\.\d+)?(?:h|m|s|ms|d))+|\d{4}-\d\d-\d\d(?:T\d\d)?|\d\d(?:\.\d+)?Z|\d+\.[0-9a-v]{6,7})$`)
)

// Text returns a sentence of this program in which every word is another that is not its own: names that were met
// become what they become elsewhere, and what nothing is known of becomes a word with a number.
func (n *Names) Text(text string) string {
	if !n.numbered {
		return text
	}
	return word.ReplaceAllStringFunc(text, n.word)
}

// word returns what a word becomes.
func (n *Names) word(w string) string {
	if to, ok := n.known[w]; ok {
		return to
	}
	if n.plain[w] || n.kept[w] || amount.MatchString(w) || wordsOfProgram()[strings.ToLower(w)] {
		return w
	}
	domain, rest, isPath := strings.Cut(w, "/")
	switch {
	case isPath && isStandard(domain):
		return w
	case isPath:
		return n.word(domain) + "/" + n.word(rest)
	}
	return n.Name(words, w)
}

// JSON replaces every string of a value, which has a form in JSON, by what it becomes as a sentence. Names of fields stay.
func (n *Names) JSON(value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("redact %T: %w", value, err)
	}
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.UseNumber()
	var tree any
	err = dec.Decode(&tree)
	if err == nil {
		text, err = json.Marshal(n.tree(tree))
	}
	if err == nil {
		err = json.Unmarshal(text, value)
	}
	if err != nil {
		return fmt.Errorf("redact %T: %w", value, err)
	}
	return nil
}

func (n *Names) tree(v any) any {
	switch v := v.(type) {
	case string:
		return n.Text(v)
	case []any:
		for i := range v {
			v[i] = n.tree(v[i])
		}
	case map[string]any:
		for field := range v {
			v[field] = n.tree(v[field])
		}
	}
	return v
}
