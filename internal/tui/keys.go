package tui

import (
	"fmt"
	"slices"
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/view"
)

// keyMap is what keys do, apart from those of the screens.
type keyMap struct {
	up, down, pageUp, pageDown, first, last                           key.Binding
	open, back, filter, sort, reverse, pause, json, help, types, quit key.Binding
	reason, divide, older, newer, slower, faster, events, save, link  key.Binding
	why                                                               key.Binding
}

func keys() keyMap {
	bind := func(shown, does string, keys ...string) key.Binding {
		return key.NewBinding(key.WithKeys(keys...), key.WithHelp(shown, does))
	}
	return keyMap{
		up: bind("up k", "one row up", "up", "k"), down: bind("down j", "one row down", "down", "j"),
		pageUp: bind("PgUp", "a page up", "pgup", "ctrl+b", "ctrl+u"), pageDown: bind("PgDn", "a page down", "pgdown", "ctrl+f", "ctrl+d"),
		first: bind("g Home", "to the first row", "g", "home"), last: bind("G End", "to the last row", "G", "end"),
		open: bind("Enter", "explain what the row is about", "enter"), back: bind("Esc", "back; end the filter", "esc"),
		filter: bind("/", "filter: words, !not, pool:NAME, reason:NAME, -l KEY=VALUE; Enter opens the only row, or asks about a name that no row has", "/"),
		sort:   bind("s", "sort by the next column", "s"), reverse: bind("S", "sort the other way round", "S"),
		pause: bind("Space", "pause, and go on", "space", " "), json: bind("y", "the row as JSON", "y"), help: bind("?", "keys", "?"),
		types: bind("t", "in an explanation: explain the instance type", "t"), quit: bind("q", "quit", "q", "ctrl+c"),
		reason: bind("r", "only rows of the next reason (of decisions: the next loop)", "r"), divide: bind("t", "cost: by namespace or by workload", "t"),
		older: bind("[", "recording: the moment before", "["), newer: bind("]", "recording: the next moment", "]"),
		slower: bind(",", "recording: half as fast", ","), faster: bind(".", "recording: twice as fast", "."),
		events: bind("e", "events of what is open or under the cursor", "e"), save: bind("x", "save the decision that is open or under the cursor to a file", "x"),
		why:  bind("T", "why the node or NodeClaim that is open or under the cursor is of its instance type", "T"),
		link: bind("u", "copy the address of its page in the browser", "u"),
	}
}

// keyLines returns what all keys do, a line each.
func keyLines(m *model) (lines []string) {
	for i := range m.screens {
		lines = append(lines, fmt.Sprintf("%-8s %s", m.screens[i].key, m.screens[i].name))
	}
	lines = append(lines, "")
	k := keys()
	for _, b := range []key.Binding{
		k.up, k.down, k.pageUp, k.pageDown, k.first, k.last, k.open, k.types, k.why, k.back, k.filter, k.reason, k.sort, k.reverse, k.divide, k.pause, k.json, k.events, k.save, k.link, k.older, k.newer, k.slower, k.faster, k.help, k.quit,
	} {
		lines = append(lines, fmt.Sprintf("%-8s %s", b.Help().Key, b.Help().Desc))
	}
	return append(lines, "", "The mouse works, too: a click chooses a row, a second one opens it, a click on a title sorts. No key changes the cluster.")
}

// shortKeys returns what the last line shows.
func shortKeys(m *model) (short []key.Binding) {
	add := func(name, does string) {
		short = append(short, key.NewBinding(key.WithKeys(name), key.WithHelp(name, does)))
	}
	if m.open != nil {
		add("Esc", "back")
		if m.open.instanceType != "" {
			add("t", "instance type")
		}
		if hasLaunch(m.open.subject) {
			add("T", "why this type")
		}
	}
	add("?", "keys")
	for i := range m.screens {
		add(m.screens[i].key, m.screens[i].name)
	}
	add("/", "filter")
	add("q", "quit")
	return short
}

// press takes in a key.
func (m *model) press(msg tea.KeyPressMsg) tea.Cmd {
	k := keys()
	m.notice = ""
	if m.typing {
		return m.typed(msg)
	}
	if at := slices.IndexFunc(m.screens, func(s screen) bool { return s.key == msg.String() }); at >= 0 {
		return m.show(at)
	}
	switch {
	case key.Matches(msg, k.quit):
		m.quit = true
		return tea.Quit
	case key.Matches(msg, k.help):
		m.openKeys()
		return nil
	case key.Matches(msg, k.pause):
		m.pause()
		return nil
	case key.Matches(msg, k.events):
		return openEvents(m)
	case key.Matches(msg, k.why):
		return openTypes(m)
	case key.Matches(msg, k.save):
		return saveDecision(m)
	case key.Matches(msg, k.link):
		return copyLink(m)
	case m.session() != nil && key.Matches(msg, k.older, k.newer, k.slower, k.faster):
		m.play(msg)
		return nil
	case key.Matches(msg, k.filter):
		m.open, m.typing = nil, true
		m.input.SetValue("")
		return nil
	case m.open != nil:
		return m.pressInLeaf(msg)
	}
	return m.pressInList(msg)
}

// pressInList takes in a key where no leaf covers the list.
func (m *model) pressInList(msg tea.KeyPressMsg) tea.Cmd {
	k, l, page := keys(), m.list(), max(1, m.room()-1)
	switch {
	case key.Matches(msg, k.open):
		return m.openRow()
	case key.Matches(msg, k.back):
		l.filter = ""
		l.arrange()
	case key.Matches(msg, k.up):
		l.move(-1)
	case key.Matches(msg, k.down):
		l.move(1)
	case key.Matches(msg, k.pageUp):
		l.move(-page)
	case key.Matches(msg, k.pageDown):
		l.move(page)
	case key.Matches(msg, k.first):
		l.move(-len(l.rows))
	case key.Matches(msg, k.last):
		l.move(len(l.rows))
	case key.Matches(msg, k.sort):
		l.sortNext(m.screens[m.at].sorts)
	case key.Matches(msg, k.reverse):
		l.reversed = !l.reversed
		l.arrange()
	case key.Matches(msg, k.json):
		m.openJSON()
	case key.Matches(msg, k.reason):
		l.nextReason()
	case key.Matches(msg, k.divide) && m.at == screenCost:
		return m.divide()
	}
	return nil
}

// pressInLeaf takes in a key where a leaf covers the list.
func (m *model) pressInLeaf(msg tea.KeyPressMsg) tea.Cmd {
	k := keys()
	switch {
	case key.Matches(msg, k.back):
		m.open = nil
	case key.Matches(msg, k.first):
		m.open.view.GotoTop()
	case key.Matches(msg, k.last):
		m.open.view.GotoBottom()
	case key.Matches(msg, k.types) && m.open.instanceType != "":
		s := journal.Subject{Kind: journal.KindType, Name: m.open.instanceType}
		return m.openSubject(s.String(), s, nil)
	case !key.Matches(msg, k.open):
		var cmd tea.Cmd
		m.open.view, cmd = m.open.view.Update(msg)
		return cmd
	}
	return nil
}

// typed takes in a key while a filter is typed.
func (m *model) typed(msg tea.KeyPressMsg) tea.Cmd {
	l := m.list()
	switch msg.String() {
	case "ctrl+c":
		m.quit = true
		return tea.Quit
	case "esc":
		m.typing, l.filter = false, ""
		l.arrange()
		return nil
	case "enter":
		m.typing = false
		return m.search()
	case "up", "down":
		m.typing = false
		return m.pressInList(msg)
	}
	m.enter(msg)
	return nil
}

// enter hands a key or a pasted text to the filter.
func (m *model) enter(msg tea.Msg) {
	l := m.list()
	m.input, _ = m.input.Update(msg)
	if text := strings.TrimSpace(plain(m.input.Value())); text != l.filter {
		l.filter, l.cursor, l.top = text, 0, 0
		l.arrange()
	}
}

// pause makes the screen stand still, or go on.
func (m *model) pause() {
	m.paused, m.pausedAt = !m.paused, m.now
	if s := m.session(); s != nil {
		s.halt(m.paused)
	}
}

// play moves in a recording.
func (m *model) play(msg tea.KeyPressMsg) {
	s := m.session()
	switch msg.String() {
	case "[":
		s.step(-1)
	case "]":
		s.step(1)
	default:
		s.hurry(msg.String() == ".")
	}
	m.moment = s.moment()
	m.refill()
}

// divide divides cost in the other way.
func (m *model) divide() tea.Cmd {
	if m.session() != nil {
		return nil // it has what was recorded
	}
	if m.by = view.ByWorkload; m.moment.Cost != nil && m.moment.Cost.By == view.ByWorkload {
		m.by = view.ByNamespace
	}
	return m.ask()
}

// nextReason leaves the rows of the next reason there is; after the last, all.
func (l *list) nextReason() {
	var reasons []string
	for i := range l.rows {
		if r := strings.ToLower(l.rows[i].reason); r != "" && !slices.Contains(reasons, r) {
			reasons = append(reasons, r)
		}
	}
	slices.Sort(reasons)
	const field = "reason:"
	at := 0
	if now, is := strings.CutPrefix(l.filter, field); is {
		at = slices.Index(reasons, now) + 1
	}
	if l.filter = ""; at < len(reasons) {
		l.filter = field + reasons[at]
	}
	l.cursor, l.top = 0, 0
	l.arrange()
}

// click takes in a button of the mouse.
func (m *model) click(msg tea.MouseClickMsg) tea.Cmd {
	if msg.Button != tea.MouseLeft || m.open != nil || m.typing {
		return nil
	}
	l, from := m.list(), m.rowsFrom()
	switch at := l.top + msg.Y - from; {
	case msg.Y == from-1:
		c := columnAt(l.layout(m.width-markWidth), msg.X-markWidth)
		if c < 0 {
			return nil
		}
		l.reversed = l.by == c && !l.reversed
		l.by = c
		l.arrange()
	case msg.Y < from || msg.Y >= from+m.room() || at >= len(l.shown):
	case at == l.cursor:
		return m.openRow()
	default:
		l.cursor = at
	}
	return nil
}

// wheel takes in the wheel of the mouse.
func (m *model) wheel(msg tea.MouseWheelMsg) tea.Cmd {
	if m.open != nil {
		var cmd tea.Cmd
		m.open.view, cmd = m.open.view.Update(msg)
		return cmd
	}
	const rows = 3
	switch msg.Button {
	case tea.MouseWheelUp:
		m.list().move(-rows)
	case tea.MouseWheelDown:
		m.list().move(rows)
	default:
	}
	return nil
}
