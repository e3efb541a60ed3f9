package tui

import (
	"cmp"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
)

const (
	// columnGap is how many blanks are between columns.
	columnGap = 2
	// barWidth is how wide a bar in a column is, percentWidth what follows it.
	barWidth, percentWidth = 8, 6
	// restLeast is how wide the column that takes the rest is at least.
	restLeast = 14
)

// column is a column of a list.
type column struct {
	title string
	// rank is which columns are kept when there is little room: the lowest are.
	rank int
	// most bounds the width; 0: the widest cell does.
	most  int
	right bool
	// bar: cells are shares. rest: it takes what the others leave.
	bar, rest bool
	// descending: it is sorted from the largest down first.
	descending bool
	// hidden: it is not drawn, and sorts all the same.
	hidden bool
}

// cell is a value in words, and as a number to sort by.
type cell struct {
	text   string
	number float64
}

// row is a line of a list.
type row struct {
	// key is the same for the same thing in the next moment.
	key   string
	cells []cell
	tone  tone
	// subject is what Enter asks about; its Name is empty: nothing can be asked.
	subject journal.Subject
	// instanceType is asked about by another key.
	instanceType string
	pool, reason string
	labels       map[string]string
	// more is text that the filter looks at besides the cells.
	more string
	// facts are what is known of it without asking, line by line.
	facts func() []string
	// value is what it is made from.
	value any

	all string // what a filter looks at, once it was asked for
}

// searched returns what a filter looks at, in small letters.
func (r *row) searched() string {
	if r.all == "" {
		var b strings.Builder
		for i := range r.cells {
			b.WriteString(r.cells[i].text)
			b.WriteByte('\n')
		}
		b.WriteString(r.more)
		r.all = strings.ToLower(b.String())
	}
	return r.all
}

// list is the rows of a screen: which are shown in what order, and where the reader is.
type list struct {
	columns []column
	natural []int // how wide each column would be
	rows    []row
	shown   []int // indexes in rows
	filter  string
	// by is the column that it is sorted by; -1: as it came. reversed: the other way round.
	by       int
	reversed bool
	cursor   int // in shown
	top      int // the first of shown that is drawn
	// unknown is a label that the filter asks for and that no row has.
	unknown string
}

func newList(columns []column) *list {
	return &list{columns: columns, natural: make([]int, len(columns)), by: -1}
}

// fill takes in other rows. The reader stays where they are.
func (l *list) fill(rows []row) {
	l.rows = rows
	l.natural = make([]int, len(l.columns))
	for i, c := range l.columns {
		l.natural[i] = ansi.StringWidth(c.title)
		if c.bar {
			l.natural[i] = barWidth + percentWidth
			continue
		}
		for k := range rows {
			l.natural[i] = max(l.natural[i], widthOf(rows[k].cells[i].text))
		}
		if c.most > 0 {
			l.natural[i] = min(l.natural[i], c.most)
		}
	}
	l.arrange()
}

// widthOf is ansi.StringWidth, fast for what is ASCII.
func widthOf(text string) int {
	for i := range len(text) {
		if text[i] < ' ' || text[i] >= 0x7f {
			return ansi.StringWidth(text)
		}
	}
	return len(text)
}

// arrange filters and sorts. The row under the cursor stays under it if it is still shown.
func (l *list) arrange() {
	key := ""
	if r := l.current(); r != nil {
		key = r.key
	}
	f := parseFilter(l.filter)
	l.unknown = f.unknownLabel(l.rows)
	l.shown = make([]int, 0, len(l.rows))
	for i := range l.rows {
		if f.holds(&l.rows[i]) {
			l.shown = append(l.shown, i)
		}
	}
	l.sort()
	if at := slices.IndexFunc(l.shown, func(i int) bool { return l.rows[i].key == key }); at >= 0 && l.cursor > 0 {
		l.cursor = at
	}
	l.move(0)
}

func (l *list) sort() {
	if l.by < 0 {
		if l.reversed {
			slices.Reverse(l.shown)
		}
		return
	}
	down := l.columns[l.by].descending != l.reversed
	slices.SortStableFunc(l.shown, func(a, b int) int {
		x, y := &l.rows[a].cells[l.by], &l.rows[b].cells[l.by]
		order := cmp.Or(cmp.Compare(x.number, y.number), cmp.Compare(x.text, y.text))
		if down {
			return -order
		}
		return order
	})
}

// current returns the row under the cursor; nil: no row is shown.
func (l *list) current() *row {
	if l.cursor >= len(l.shown) || l.shown[l.cursor] >= len(l.rows) {
		return nil
	}
	return &l.rows[l.shown[l.cursor]]
}

// move moves the cursor by so many rows.
func (l *list) move(by int) { l.cursor = max(0, min(l.cursor+by, len(l.shown)-1)) }

// sortNext sorts by the next of the columns; after the last, as the rows came.
func (l *list) sortNext(columns []int) {
	at := slices.Index(columns, l.by) + 1
	if l.by, l.reversed = -1, false; at < len(columns) {
		l.by = columns[at]
	}
	l.cursor, l.top = 0, 0
	l.arrange()
}

// layout returns how wide each column is in so much room; 0: it is not drawn.
func (l *list) layout(width int) []int {
	widths, left := make([]int, len(l.columns)), width
	order := make([]int, len(l.columns))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(l.columns[a].rank, l.columns[b].rank) })
	rest := -1
	order = slices.DeleteFunc(order, func(i int) bool { return l.columns[i].hidden })
	for n, i := range order {
		need := l.natural[i]
		if l.columns[i].rest {
			need, rest = min(need, restLeast), i
		}
		gap := columnGap
		if n == 0 {
			gap = 0
		}
		if n > 0 && need+gap > left {
			if l.columns[i].most == 0 || left-gap < restLeast {
				continue // one with less to say may fit
			}
			need = left - gap // it is shortened
		}
		widths[i] = min(need, left)
		left -= widths[i] + gap
	}
	if rest >= 0 && widths[rest] > 0 && left > 0 {
		widths[rest] += left
	}
	return widths
}

// head returns the titles of the columns.
func (l *list) head(t *theme, widths []int) string {
	var parts []string
	for i, c := range l.columns {
		if widths[i] == 0 {
			continue
		}
		title := c.title
		if i == l.by {
			title += l.arrow(t)
		}
		parts = append(parts, t.fit(title, widths[i], c.right))
	}
	return strings.Join(parts, strings.Repeat(" ", columnGap))
}

// arrow says in which direction the list is sorted.
func (l *list) arrow(t *theme) string {
	if l.by >= 0 && l.columns[l.by].descending != l.reversed {
		return t.mark("▾", "v")
	}
	return t.mark("▴", "^")
}

// line returns a row as text.
func (l *list) line(t *theme, r *row, widths []int) string {
	var b strings.Builder
	for i := range l.columns {
		w := widths[i]
		if w == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(strings.Repeat(" ", columnGap))
		}
		c, text := &r.cells[i], ""
		if l.columns[i].bar && w > percentWidth && c.text != "" {
			text = t.bar(c.number, w-percentWidth) + t.fit(c.text, percentWidth, true)
		} else {
			text = t.fit(t.inASCII(c.text), w, l.columns[i].right)
		}
		b.WriteString(text)
	}
	return b.String()
}

// columnAt returns the column at a place of a line; -1: none is there.
func columnAt(widths []int, x int) int {
	from := 0
	for i, w := range widths {
		if w == 0 {
			continue
		}
		if x >= from && x < from+w+columnGap {
			return i
		}
		from += w + columnGap
	}
	return -1
}
