package verdict

import "unicode/utf8"

// ellipsis ends a text that was cut.
const ellipsis = "..."

// Cut returns a text of at most so many bytes: the text, or its beginning with an ellipsis. Characters
// are kept whole.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := max(0, most-len(ellipsis))
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}
