package nodegroup

import (
	"encoding/json"
	"regexp"
	"strings"
)

// manifest is YAML in the making: lines with comments.
type manifest struct{ lines []line }

type line struct{ text, comment string }

func (m *manifest) add(indent int, text, comment string) {
	m.lines = append(m.lines, line{strings.Repeat("  ", indent) + text, comment})
}

func (m *manifest) separate() { m.lines = append(m.lines, line{text: "---"}) }

// commentAt is the column in which comments begin, at the earliest.
const commentAt = 48

// String returns the text. Comments stand in one column as far as lines let them.
func (m *manifest) String() string {
	var b strings.Builder
	for _, l := range m.lines {
		b.WriteString(l.text)
		if l.comment != "" {
			b.WriteString(strings.Repeat(" ", max(1, commentAt-len(l.text))) + "# " + strings.Join(strings.Fields(l.comment), " "))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

var plainText = regexp.MustCompile(`^[a-zA-Z/][a-zA-Z0-9/._-]*$`)

// text returns a string as YAML: as it is if no reader can take it for anything else.
func text(s string) string {
	switch strings.ToLower(s) {
	case "true", "false", "yes", "no", "on", "off", "null", "y", "n":
	default:
		if plainText.MatchString(s) {
			return s
		}
	}
	return quoted(s)
}

// quoted returns a string in quotes. JSON is YAML.
func quoted(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil { // a string can always be written
		return `""`
	}
	return strings.TrimSpace(b.String())
}
