package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"charm.land/bubbles/v2/help"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/dovetail-sh/dovetail/internal/view"
	"github.com/dovetail-sh/dovetail/internal/view/table"
)

const (
	// markWidth is how wide the mark before the row under the cursor is.
	markWidth = 2
	// roomForTitle and roomForUse are how high a screen is that has the line of the title, and that of use.
	roomForTitle, roomForUse = 7, 10
	headerBar                = 16
	// oldAfter is from when on the header says how old the newest snapshot is.
	oldAfter = 60
)

// above returns how many lines are above the list's own.
func (m *model) above() (header, title int) {
	header = 1
	if m.height >= roomForUse {
		header++
	}
	if m.height >= roomForTitle {
		title = 1
	}
	return header, title
}

// rowsFrom returns on which line the first row is.
func (m *model) rowsFrom() int {
	header, title := m.above()
	return header + title + 1
}

// room returns how many rows there is room for.
func (m *model) room() int { return max(0, m.height-m.rowsFrom()-1) }

// frame returns the whole screen: as many lines as it is high, none wider than it is.
func (m *model) frame() string {
	header, title := m.above()
	lines := []string{m.header()}
	if header > 1 {
		lines = append(lines, m.use())
	}
	if title > 0 {
		lines = append(lines, m.title())
	}
	switch {
	case m.open != nil:
		lines = append(lines, m.leafLines()...)
	default:
		lines = append(lines, m.listLines()...)
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:max(0, m.height-1)], m.bottom())
	for i := range lines {
		lines[i] = clip(lines[i], m.width)
	}
	return strings.Join(lines, "\n")
}

// segment is a part of a line that may be left out: those of the highest rank first.
type segment struct {
	text string
	rank int
	tone tone
}

// join returns the segments that there is room for.
func (m *model) join(segments []segment) string {
	segments = slices.DeleteFunc(segments, func(s segment) bool { return s.text == "" })
	wide := func() int {
		w := 1
		for _, s := range segments {
			w += ansi.StringWidth(s.text) + columnGap
		}
		return w - columnGap
	}
	for len(segments) > 1 && wide() > m.width {
		worst := 0
		for i := range segments {
			if segments[i].rank >= segments[worst].rank {
				worst = i
			}
		}
		segments = slices.Delete(segments, worst, worst+1)
	}
	parts := make([]string, len(segments))
	for i, s := range segments {
		parts[i] = m.theme.draw(s.text, s.tone)
	}
	return " " + strings.Join(parts, strings.Repeat(" ", columnGap))
}

// header is the first line: how the cluster is, and what it costs.
func (m *model) header() string {
	source := plain(m.opts.Source.Name())
	if s := m.session(); s != nil {
		source += " (recording, " + s.where() + ")"
	}
	v := m.moment.Overview
	if v == nil {
		return m.join([]segment{{text: "dovetail"}, {text: source, rank: 2}, {text: "asking" + m.theme.mark("…", "..."), rank: 1}})
	}
	health := segment{m.theme.mark("● ", "") + "healthy", 1, calm}
	if n := len(v.Health.Findings); !v.Health.Healthy {
		health = segment{fmt.Sprintf("%s%d to look at", m.theme.mark("● ", "! "), n), 1, alarm}
	}
	pods := segment{thousands(v.Usage.PodsRunning) + " pods", 3, calm}
	if v.Pending.Pods > 0 {
		pods.text += fmt.Sprintf(" (%s pending)", thousands(v.Pending.Pods))
	}
	if v.Pending.Refused > 0 {
		pods.tone, pods.rank = alarm, 2
	}
	price := table.Money(v.Price.Hourly) + "/h"
	if v.Price.Unpriced > 0 {
		price += fmt.Sprintf(" + %d of unknown price", v.Price.Unpriced)
	}
	segments := []segment{{text: "dovetail", rank: 7}, {text: source, rank: 8}, health, {counted(v.Nodes.Total, "node"), 3, calm}, pods, {price, 1, calm}, {table.Monthly(v.Price.Hourly) + "/mo", 6, calm}}
	if v.Observes {
		segments = append(segments, segment{"observes only", 1, alarm})
	}
	if b := v.Bound; b != nil {
		least := "least " + table.Money(b.LeastHourly)
		if b.NodesHeld > 0 {
			least += fmt.Sprintf(" with %d kept", b.NodesHeld)
		}
		segments = append(segments, segment{least, 5, calm}, segment{"gap " + table.Share(b.Gap()), 4, calm})
	}
	if age := m.moment.At.Sub(v.At); age.Seconds() >= oldAfter {
		segments = append(segments, segment{"as of " + duration(age) + " ago", 2, calm})
	}
	return m.join(segments)
}

// use is the second line: how much of the nodes is used, and what is next.
func (m *model) use() string {
	v := m.moment.Overview
	if v == nil {
		return ""
	}
	bar := func(name string, used, whole int64) string {
		c := share(used, whole)
		return name + " " + m.theme.bar(c.number, headerBar) + " " + cmp.Or(c.text, "-")
	}
	segments := []segment{{text: bar("cpu", v.Usage.CPUUsed, v.Usage.CPU), rank: 1}, {text: bar("mem", v.Usage.MemoryUsed, v.Usage.Memory), rank: 2}, {text: "spot " + table.Share(v.Price.SpotShare()), rank: 3}}
	if len(v.Next) > 0 {
		e := &v.Next[0]
		left := m.width - ansi.StringWidth(m.join(slices.Clone(segments))) - columnGap
		if text := plain("next " + table.WhenText(e) + ": " + e.Subject() + " " + e.Action); left > restLeast {
			segments = append(segments, segment{m.theme.shorten(m.theme.inASCII(text), left), 4, calm})
		}
	}
	return m.join(segments)
}

// title is the line above the list: which it is, of what, in which order.
func (m *model) title() string {
	if m.open != nil {
		return " " + m.theme.title.Render(m.theme.shorten(plain(m.open.title), m.width-1))
	}
	l, s := m.list(), &m.screens[m.at]
	name := fmt.Sprintf("%s(%d)", strings.ToUpper(s.name), len(l.shown))
	if len(l.shown) != len(l.rows) {
		name = fmt.Sprintf("%s(%d of %d)", strings.ToUpper(s.name), len(l.shown), len(l.rows))
	}
	if s.part == partCost && m.moment.Cost != nil {
		name += " by " + strings.TrimPrefix(m.moment.Cost.By, view.ByLabel)
	}
	left := " " + m.theme.title.Render(name)
	if l.filter != "" && !m.typing {
		left += "  /" + m.theme.inASCII(l.filter)
	}
	if l.unknown != "" {
		left += "  " + m.theme.draw("no row has the label "+m.theme.inASCII(l.unknown), alarm)
	}
	var right []string
	if m.paused {
		right = append(right, m.theme.draw("paused "+duration(m.now.Sub(m.pausedAt)), alarm))
	}
	if m.opts.Recorder != nil {
		right = append(right, "recording")
	}
	switch {
	case l.by >= 0:
		right = append(right, "sort: "+strings.ToLower(l.columns[l.by].title)+" "+l.arrow(&m.theme))
	case l.reversed:
		right = append(right, "reversed")
	}
	end := strings.Join(right, "  ")
	gap := m.width - ansi.StringWidth(left) - ansi.StringWidth(end) - 1
	if end == "" || gap < 1 {
		return left
	}
	return left + strings.Repeat(" ", gap) + end
}

// listLines returns the titles of the columns and the rows that there is room for.
func (m *model) listLines() []string {
	l, s, room := m.list(), &m.screens[m.at], m.room()
	if l.cursor < l.top {
		l.top = l.cursor
	}
	if l.cursor >= l.top+room {
		l.top = l.cursor - room + 1
	}
	l.top = max(0, min(l.top, len(l.shown)-room))
	widths := l.layout(m.width - markWidth)
	if len(l.shown) == 0 {
		return []string{"", "  " + m.theme.dim.Render(m.nothing(s, l))}
	}
	lines := []string{strings.Repeat(" ", markWidth) + m.theme.head.Render(l.head(&m.theme, widths))}
	for i := l.top; i < min(l.top+room, len(l.shown)); i++ {
		r := &l.rows[l.shown[i]]
		text := l.line(&m.theme, r, widths)
		if i == l.cursor {
			lines = append(lines, m.theme.chosen.Render(m.theme.mark("▶ ", "> ")+text))
			continue
		}
		lines = append(lines, strings.Repeat(" ", markWidth)+m.theme.draw(text, r.tone))
	}
	return lines
}

// nothing says why there are no rows.
func (m *model) nothing(s *screen, l *list) string {
	switch {
	case len(l.rows) > 0 && strings.ContainsAny(l.filter, " !:"):
		return "No row is left by the filter; Esc ends it."
	case l.filter != "":
		return "No row has that; Enter asks about the name, Esc ends the filter."
	case m.moment.has(s.part):
		return s.none
	case m.session() != nil:
		return "This was not recorded."
	case m.err != nil:
		return "There is no answer yet."
	default:
		return "asking" + m.theme.mark("…", "...")
	}
}

// leafLines returns what covers the list.
func (m *model) leafLines() []string {
	height := max(1, m.height-m.rowsFrom())
	m.open.wrap(max(1, m.width-markWidth))
	m.open.view.SetHeight(height)
	lines := strings.Split(m.open.view.View(), "\n")
	for i := range lines {
		lines[i] = strings.Repeat(" ", markWidth) + m.theme.inASCII(lines[i])
	}
	return lines
}

// bottom is the last line: what is typed, what is wrong, or the keys.
func (m *model) bottom() string {
	if m.typing {
		return " " + m.input.View()
	}
	if fault := m.fault(); fault != "" {
		return " " + m.theme.draw(m.theme.shorten(m.theme.inASCII(plain(fault)), m.width-1), alarm)
	}
	if m.notice != "" {
		return " " + m.theme.shorten(m.theme.inASCII(plain(m.notice)), m.width-1)
	}
	h := help.New()
	h.ShortSeparator, h.Ellipsis = "  ", m.theme.mark("…", "~")
	h.Styles = help.Styles{ShortKey: m.theme.title, ShortDesc: m.theme.dim, Ellipsis: m.theme.dim}
	h.SetWidth(m.width - 1)
	return " " + h.ShortHelpView(shortKeys(m))
}

// view returns what the terminal shows.
func (m *model) view() tea.View {
	v := tea.NewView(m.frame())
	v.AltScreen, v.MouseMode, v.WindowTitle = true, tea.MouseModeCellMotion, "dovetail top"
	if m.typing {
		if c := m.input.Cursor(); c != nil {
			v.Cursor = tea.NewCursor(min(c.X+1, m.width-1), m.height-1)
		}
	}
	return v
}
