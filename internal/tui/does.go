package tui

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
)

// Helpers do what a source of views cannot. What is nil cannot be done, and the key says so.
type Helpers struct {
	// Events returns the events of a subject, a line each, the newest first.
	Events func(context.Context, journal.Subject) ([]string, error)
	// Types says why a node or NodeClaim is of its instance type, and none that is cheaper.
	Types func(context.Context, journal.Subject) ([]string, error)
	// Save writes a decision to a file, and returns the file's name.
	Save func(ctx context.Context, id string) (file string, err error)
	// Link returns the address of the controller's pages; empty: they cannot be reached.
	Link func() string
}

// Messages.
type (
	// linesMsg is what was asked of a subject.
	linesMsg struct {
		asked int
		lines []string
		err   error
	}
	// noticeMsg is said on the last line until the next key.
	noticeMsg string
)

// subjectOf returns what is open or under the cursor; its Name is empty: nothing that can be asked about.
func subjectOf(m *model) journal.Subject {
	if m.open != nil {
		return m.open.subject
	}
	if r := m.list().current(); r != nil {
		return r.subject
	}
	return journal.Subject{}
}

// decisionAt returns the ID of the decision that is open or under the cursor; empty: there is none.
func decisionAt(m *model) string {
	if m.open != nil {
		return m.open.decision
	}
	if r := m.list().current(); r != nil {
		return decisionOf(r)
	}
	return ""
}

// decisionOf returns the ID of the decision that a row is about; empty: it is about none.
func decisionOf(r *row) string {
	if d, is := r.value.(*journal.Head); is {
		return d.ID.String()
	}
	return ""
}

// openEvents covers the list with the events of a subject.
func openEvents(m *model) tea.Cmd {
	s, events := subjectOf(m), m.opts.Helpers.Events
	if s.Name == "" {
		m.notice = "nothing that has events is under the cursor"
		return nil
	}
	if events == nil {
		m.notice = "events are the cluster's, and this was read from a file"
		return nil
	}
	return openLines(m, "events of "+s.String(), s, func(ctx context.Context, s journal.Subject) ([]string, error) {
		lines, err := events(ctx, s)
		if len(lines) == 0 {
			lines = []string{"The API server has no events of it. It keeps events for an hour by default."}
		}
		return lines, err
	})
}

// openTypes covers the list with why a node or NodeClaim is of its instance type.
func openTypes(m *model) tea.Cmd {
	s, types := subjectOf(m), m.opts.Helpers.Types
	switch {
	case !hasLaunch(s):
		m.notice = "no node or NodeClaim is open or under the cursor"
		return nil
	case types == nil:
		m.notice = "no controller can be asked why " + s.String() + " is of its instance type"
		return nil
	}
	return openLines(m, "why "+s.String()+" is of its instance type", s, types)
}

// hasLaunch reports whether a subject was launched as an instance type: it is a node or NodeClaim.
func hasLaunch(s journal.Subject) bool {
	return s.Kind == journal.KindNode || s.Kind == journal.KindClaim
}

// openLines covers the list with what is asked of a subject.
func openLines(m *model, title string, s journal.Subject, ask func(context.Context, journal.Subject) ([]string, error)) tea.Cmd {
	m.leave(&leaf{title: title, subject: s})
	ctx, asked := m.ctx, m.asked
	return func() tea.Msg {
		lines, err := ask(ctx, s)
		return linesMsg{asked, lines, err}
	}
}

// showLines takes in what was asked of a subject.
func showLines(m *model, l linesMsg) {
	if m.open == nil || m.open.asked != l.asked {
		return
	}
	if m.open.lines, m.open.width = l.lines, 0; l.err != nil {
		m.open.lines = []string{l.err.Error()}
	}
}

// saveDecision writes the decision that is open or under the cursor to a file.
func saveDecision(m *model) tea.Cmd {
	id, save := decisionAt(m), m.opts.Helpers.Save
	switch {
	case id == "":
		m.notice = "no decision is open or under the cursor"
	case save == nil:
		m.notice = "no controller can be asked for decision " + id
	default:
		ctx := m.ctx
		return func() tea.Msg {
			file, err := save(ctx, id)
			if err != nil {
				return noticeMsg(err.Error())
			}
			return noticeMsg("wrote decision " + id + " to " + file)
		}
	}
	return nil
}

// copyLink has the terminal copy the address of the page of what is open or under the cursor.
func copyLink(m *model) tea.Cmd {
	base := ""
	if m.opts.Helpers.Link != nil {
		base = m.opts.Helpers.Link()
	}
	if base == "" {
		m.notice = "no controller's pages can be reached"
		return nil
	}
	link := strings.TrimSuffix(base, "/") + pathOf(m)
	m.notice = "copied " + link
	return tea.SetClipboard(link)
}

// pathOf returns the path of the page of what is open or under the cursor: its own, or that of the screen.
func pathOf(m *model) string {
	if id := decisionAt(m); id != "" {
		return "/decision/" + url.PathEscape(id)
	}
	switch s := subjectOf(m); s.Kind {
	case journal.KindNode, journal.KindClaim:
		return "/node/" + url.PathEscape(s.Name)
	case journal.KindPool:
		return "/pool/" + url.PathEscape(s.Name)
	}
	return cmp.Or(m.screens[m.at].path, "/"+m.screens[m.at].name)
}

// NodeColumns returns the names of the columns of nodes, by which Options.Columns chooses.
func NodeColumns() (names []string) {
	for _, c := range nodeColumns() {
		names = append(names, c.name())
	}
	return names
}

// name returns how a person names a column.
func (c *column) name() string {
	if c.title == "$/H" {
		return "price"
	}
	return strings.ToLower(c.title)
}

// choose leaves the columns of those names, the first the last to be left out where there is little room. The error
// names one that there is not.
func choose(columns []column, names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(columns, func(c column) bool { return c.name() == name }) {
			return fmt.Errorf("there is no column %q; there are %s", name, strings.Join(NodeColumns(), ", "))
		}
	}
	for i := range columns {
		columns[i].rank = slices.Index(names, columns[i].name())
		columns[i].hidden = columns[i].rank < 0
	}
	return nil
}

// CheckColumns returns what is wrong with the names of columns of nodes.
func CheckColumns(names []string) error { return choose(nodeColumns(), names) }
