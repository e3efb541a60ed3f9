package tui

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// tone is how much a line asks to be looked at. What it says is in words, too.
type tone int

const (
	calm  tone = iota
	busy       // something goes on
	alarm      // somebody should look
)

// theme is how things are drawn: in the sixteen colors of the reader's terminal, or in none. Blue and
// orange differ for whoever sees no red or green.
type theme struct {
	ascii                                 bool
	head, title, dim, busy, alarm, chosen lipgloss.Style
}

func newTheme(colors, ascii bool) theme {
	t := theme{ascii: ascii}
	if !colors {
		return t
	}
	style := lipgloss.NewStyle
	t.head = style().Bold(true)
	t.title = style().Bold(true).Foreground(lipgloss.Color("12"))
	t.dim = style().Faint(true)
	t.busy = style().Foreground(lipgloss.Color("12"))
	t.alarm = style().Foreground(lipgloss.Color("3"))
	t.chosen = style().Reverse(true)
	return t
}

// draw returns a text in a tone.
func (t *theme) draw(text string, in tone) string {
	switch in {
	case busy:
		return t.busy.Render(text)
	case alarm:
		return t.alarm.Render(text)
	default:
		return text
	}
}

// marks of the screen, and what stands for them in ASCII.
func (t *theme) mark(unicode, ascii string) string {
	if t.ascii {
		return ascii
	}
	return unicode
}

// inASCII returns a text without other characters, if those are not to be drawn.
func (t *theme) inASCII(text string) string {
	if !t.ascii {
		return text
	}
	return strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII {
			return '?'
		}
		return r
	}, text)
}

// plain returns a text on one line, without characters that draw nothing or move the cursor.
func plain(text string) string {
	if !strings.ContainsFunc(text, odd) {
		return text
	}
	return strings.Map(func(r rune) rune {
		if odd(r) {
			return ' '
		}
		return r
	}, text)
}

func odd(r rune) bool { return !unicode.IsPrint(r) }

// clip returns a text that is at most so wide.
func clip(text string, width int) string {
	if width <= 0 {
		return ""
	}
	if ansi.StringWidth(text) <= width {
		return text
	}
	return ansi.Truncate(text, width, "")
}

// shorten is clip with a mark that something is missing.
func (t *theme) shorten(text string, width int) string {
	if width <= 0 {
		return ""
	}
	if ansi.StringWidth(text) <= width {
		return text
	}
	return ansi.Truncate(text, width, t.mark("…", "~"))
}

// fit returns a text that is exactly so wide.
func (t *theme) fit(text string, width int, right bool) string {
	text = t.shorten(text, width)
	gap := strings.Repeat(" ", max(0, width-ansi.StringWidth(text)))
	if right {
		return gap + text
	}
	return text + gap
}

// bar returns a share as a bar of that width.
func (t *theme) bar(share float64, width int) string {
	share = min(1, max(0, share))
	if t.ascii {
		full := int(share*float64(width) + 0.5)
		return strings.Repeat("#", full) + strings.Repeat("-", width-full)
	}
	const parts = 8
	eighths := int(share*float64(width*parts) + 0.5)
	full, rest := eighths/parts, eighths%parts
	text := strings.Repeat("█", full)
	if rest > 0 {
		text += string([]rune(" ▏▎▍▌▋▊▉")[rest])
		full++
	}
	return text + strings.Repeat("░", width-full)
}

// duration returns a length of time in one unit, or two where one says little.
func duration(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = max(0, d); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 2*day:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd", int(d/day))
	}
}

// counted returns "1 node" or "2 nodes".
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%s %ss", thousands(n), noun)
}

// thousands returns a number with a comma before each three digits.
func thousands(n int) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
