package tui

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/textinput"
	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/view"
)

// restBetween is how long the source is left alone between two questions.
const restBetween = time.Second

// filterMost bounds the text of a filter.
const filterMost = 200

// Options say what is shown and how.
type Options struct {
	Source Source
	// Recorder records what the source answers; nil: nothing is.
	Recorder *Recorder
	// Columns are the names of the columns of nodes to show; none: all, as far as there is room. CheckColumns has
	// found them good.
	Columns []string
	// NodeLabels are labels that have columns of nodes of their own.
	NodeLabels []string
	// Cast gets all that is drawn as asciicast; nil: nothing does. Out is a terminal then.
	Cast    io.Writer
	Helpers Helpers
	// Colors and ASCII say what the terminal can draw.
	Colors, ASCII bool
	// Now is the clock.
	Now func() time.Time
	// In and Out are the terminal, Environ its environment.
	In      io.Reader
	Out     io.Writer
	Environ []string
}

// model is the state of the program: what the source said, and where the reader is.
type model struct {
	opts Options
	ctx  context.Context // that of the program, for questions to the source
	// after is tea.Tick.
	after   func(time.Duration, func(time.Time) tea.Msg) tea.Cmd
	theme   theme
	screens []screen
	lists   []*list

	width, height int
	now           time.Time

	moment Moment
	// err is why the newest question was not answered, since when.
	err      error
	errSince time.Time
	asking   bool
	// again: something is needed that the question under way does not ask for.
	again bool
	by    string // divides cost

	at       int // the screen
	paused   bool
	pausedAt time.Time
	typing   bool
	input    textinput.Model
	// open is what covers the list; nil: nothing does.
	open *leaf
	// asked counts explanations that were asked for, so that an old one is not shown.
	asked int
	// notice is said on the last line until the next key.
	notice string
	quit   bool
}

// leaf is a text that covers the list.
type leaf struct {
	title string
	facts []string
	lines []string // as said by the source; nil: not yet
	view  viewport.Model
	width int // that the lines are wrapped for; 0: for none yet
	// instanceType is asked about by a key; subject and decision are what it is about.
	instanceType string
	subject      journal.Subject
	decision     string
	asked        int
}

// Messages.
type (
	// clockMsg says what time it is.
	clockMsg time.Time
	// askMsg says that the source has been left alone for long enough.
	askMsg struct{}
	// answerMsg is what the source answered.
	answerMsg struct {
		at    time.Time
		parts map[string]any
		err   error
		// rows are those of a screen, made beside the frames.
		screen int
		rows   []row
	}
	// explainedMsg is what the source said of a subject.
	explainedMsg struct {
		asked   int
		answers []journal.Answer
		err     error
		at      time.Time
	}
)

func newModel(ctx context.Context, opts Options) *model {
	m := &model{opts: opts, ctx: ctx, after: tea.Tick, theme: newTheme(opts.Colors, opts.ASCII), screens: screens(), by: view.ByNamespace, width: 80, height: 24, now: opts.Now(), asking: true}
	if len(opts.Columns) > 0 {
		_ = choose(m.screens[screenNodes].columns, opts.Columns) // it was checked
	}
	m.screens[screenNodes].addLabels(opts.NodeLabels)
	for i := range m.screens {
		m.lists = append(m.lists, newList(m.screens[i].columns))
	}
	m.input = textinput.New()
	m.input.Prompt, m.input.CharLimit = "/", filterMost
	m.input.SetVirtualCursor(false)
	m.input.SetStyles(textinput.Styles{})
	m.input.KeyMap.Paste.SetEnabled(false) // it would run a program; terminals paste by themselves
	m.input.Focus()                        // its cursor is the terminal's, and does not blink by commands
	if s := m.session(); s != nil {
		s.sync(m.now)
		m.moment = s.moment()
		m.refill()
	}
	return m
}

// session returns the source if it is a recording; nil: it is not.
func (m *model) session() *Session {
	s, _ := m.opts.Source.(*Session)
	return s
}

func (m *model) list() *list { return m.lists[m.at] }

// refill makes the rows of the screen from the newest moment.
func (m *model) refill() {
	if s := &m.screens[m.at]; m.moment.has(s.part) {
		m.list().fill(s.rows(&m.moment, part{&m.theme}))
	}
}

// show goes to a screen.
func (m *model) show(screen int) tea.Cmd {
	m.at, m.open = screen, nil
	m.refill()
	if m.moment.has(m.screens[screen].part) || m.session() != nil {
		return nil
	}
	return m.ask()
}

// wanted returns the parts that are asked for now.
func (m *model) wanted() []string {
	if m.opts.Recorder != nil {
		return allParts()
	}
	parts := []string{partOverview}
	if part := m.screens[m.at].part; part != partOverview {
		parts = append(parts, part)
	}
	return parts
}

// ask asks the source for what is needed. One question is under way at a time.
func (m *model) ask() tea.Cmd {
	if m.asking && m.again {
		return nil
	}
	if m.asking {
		m.again = true
		return nil
	}
	m.asking = true
	return m.question()
}

// question returns what asks the source, beside the frames.
func (m *model) question() tea.Cmd {
	ctx, opts, parts, divided := m.ctx, m.opts, m.wanted(), m.by
	at, s, theme := m.at, &m.screens[m.at], m.theme
	return func() tea.Msg {
		answer := answerMsg{parts: map[string]any{}, screen: at}
		for _, name := range parts {
			into, by := empty(name), divided
			if name == PartFleet {
				by = view.ByLabels(opts.NodeLabels)
			}
			if err := opts.Source.Fill(ctx, name, by, into); err != nil {
				if answer.err = err; name == partOverview {
					break // the rest would wait as long, for nothing
				}
				continue
			}
			answer.parts[name] = into
		}
		answer.at = opts.Now()
		opts.Recorder.moment(answer.at, answer.parts)
		if answer.parts[s.part] != nil {
			only := Moment{At: answer.at}
			only.set(answer.parts[s.part])
			answer.rows = s.rows(&only, part{&theme})
		}
		return answer
	}
}

// answered takes in what the source answered.
func (m *model) answered(a answerMsg) tea.Cmd {
	m.asking = false
	if m.err = a.err; a.err == nil {
		m.errSince = time.Time{}
	} else if m.errSince.IsZero() {
		m.errSince = a.at
	}
	if !m.paused && len(a.parts) > 0 {
		m.moment.At = a.at
		for _, part := range a.parts {
			m.moment.set(part)
		}
		switch {
		case a.screen != m.at:
			m.refill()
		case a.parts[m.screens[m.at].part] != nil:
			m.list().fill(a.rows)
		}
	}
	if m.again {
		m.again, m.asking = false, true
		return m.question()
	}
	return m.after(restBetween, func(time.Time) tea.Msg { return askMsg{} })
}

// tick takes in the time.
func (m *model) tick(now time.Time) {
	m.now = now
	s := m.session()
	if s == nil {
		return
	}
	s.sync(now)
	m.moment = s.moment()
	m.refill()
}

// openRow opens what is known of the row under the cursor, and asks the source about it.
func (m *model) openRow() tea.Cmd {
	r := m.list().current()
	if r == nil {
		return nil
	}
	var facts []string
	if r.facts != nil {
		facts = r.facts()
	}
	subject := r.subject
	if g, is := r.value.(*view.PendingGroup); is {
		subject = namedBy(g.Names, m.list().filter, subject)
	}
	title := subject.String()
	if subject.Name == "" {
		title = strings.TrimSpace(r.cells[0].text + " " + r.cells[min(1, len(r.cells)-1)].text)
	}
	cmd := m.openSubject(title, subject, facts)
	m.open.instanceType, m.open.decision = r.instanceType, decisionOf(r)
	return cmd
}

// namedBy returns the first of some pods that a filter holds for, or else the subject.
func namedBy(names []string, text string, or journal.Subject) journal.Subject {
	if text == "" {
		return or
	}
	at := slices.IndexFunc(names, func(name string) bool { return strings.Contains(strings.ToLower(name), strings.ToLower(text)) })
	if at < 0 {
		return or
	}
	return podOf(names, at)
}

// openSubject covers the list with what is said of a subject, facts first.
func (m *model) openSubject(title string, s journal.Subject, facts []string) tea.Cmd {
	m.leave(&leaf{title: title, facts: facts, subject: s})
	if s.Name == "" {
		m.open.lines = []string{}
		return nil
	}
	ctx, opts, asked := m.ctx, m.opts, m.asked
	return func() tea.Msg {
		answers, err := opts.Source.Explain(ctx, s)
		at := opts.Now()
		if err == nil {
			opts.Recorder.explained(at, s, answers)
		}
		return explainedMsg{asked, answers, err, at}
	}
}

// leave covers the list with a leaf whose text is asked for.
func (m *model) leave(l *leaf) {
	m.asked++
	l.asked, l.view = m.asked, viewport.New()
	m.open = l
}

// explained takes in what was said of a subject.
func (m *model) explained(e explainedMsg) {
	if m.open == nil || m.open.asked != e.asked {
		return
	}
	now := e.at
	if m.session() != nil {
		now = m.moment.At
	}
	var b strings.Builder
	switch {
	case e.err != nil:
		fmt.Fprintf(&b, "%s", e.err)
	default:
		_ = journal.Print(&b, e.answers, now) // a Builder takes all
	}
	m.open.lines, m.open.width = strings.Split(strings.TrimRight(b.String(), "\n"), "\n"), 0
}

// openJSON covers the list with the row under the cursor as JSON.
func (m *model) openJSON() {
	r := m.list().current()
	if r == nil {
		return
	}
	b, err := json.MarshalIndent(r.value, "", "  ")
	if err != nil {
		b = []byte(err.Error())
	}
	m.open = &leaf{title: cmp.Or(r.subject.String(), "JSON"), lines: strings.Split(string(b), "\n"), view: viewport.New()}
}

// wrap puts the lines into the viewport, no wider than that.
func (l *leaf) wrap(width int) {
	if l.width == width {
		return
	}
	l.width = width
	lines := slices.Clone(l.facts)
	if len(lines) > 0 && len(l.lines) > 0 {
		lines = append(lines, "")
	}
	if lines = append(lines, l.lines...); l.lines == nil {
		lines = append(lines, "", "asking…")
	}
	var wrapped []string
	for _, line := range lines {
		wrapped = append(wrapped, strings.Split(ansi.Wrap(plain(strings.ReplaceAll(line, "\t", "  ")), width, ""), "\n")...)
	}
	l.view.SetWidth(width)
	l.view.SetContentLines(wrapped)
}

// openKeys covers the list with the keys and what they do.
func (m *model) openKeys() {
	m.open = &leaf{title: "keys", view: viewport.New(), lines: keyLines(m)}
}

// search takes in a filter that is finished: one row that is left is opened, and where none is, the text is
// what is asked about.
func (m *model) search() tea.Cmd {
	l := m.list()
	if l.filter == "" {
		return nil
	}
	if at := slices.IndexFunc(l.shown, func(i int) bool { return strings.EqualFold(l.rows[i].cells[0].text, l.filter) }); at >= 0 {
		l.cursor = at
		return m.openRow()
	}
	if len(l.shown) == 1 {
		return m.openRow()
	}
	if len(l.shown) > 1 || strings.ContainsAny(l.filter, " !:") {
		return nil
	}
	subject, err := journal.ParseSubject(l.filter)
	if err != nil {
		return nil
	}
	l.filter = ""
	l.arrange()
	return m.openSubject(subject.String(), subject, nil)
}

// fault returns what is wrong, in a line; empty: nothing is.
func (m *model) fault() string {
	if err := m.opts.Recorder.Err(); err != nil {
		return "recording: " + err.Error()
	}
	if m.err == nil || errors.Is(m.err, context.Canceled) {
		return ""
	}
	text := m.err.Error()
	if since := m.now.Sub(m.errSince); since >= restBetween {
		text = fmt.Sprintf("no answer for %s: %s", duration(since), text)
	}
	return text
}
