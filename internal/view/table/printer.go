package table

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// Options say how a view is drawn.
type Options struct {
	// Wide adds columns.
	Wide bool
	// Now is when it is drawn: ages count from the view's own instant, and what is old is said to be.
	Now time.Time
	// Holes puts those nodes first whose free room costs most, and shows what it costs.
	Holes bool
}

// printer gathers the text.
type printer struct {
	opts Options
	b    strings.Builder
}

func (p *printer) line(format string, args ...any) { fmt.Fprintf(&p.b, format+"\n", args...) }

// columnGap is how many blanks are between columns, as kubectl has it.
const columnGap = 3

// table writes rows in columns that align. Text in a cell can't begin a new line or a column.
func (p *printer) table(header []string, rows [][]string) {
	t := tabwriter.NewWriter(&p.b, 0, 0, columnGap, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		for i := range row {
			if row[i] = plain(row[i]); row[i] == "" {
				row[i] = "-"
			}
		}
		fmt.Fprintln(t, strings.TrimRight(strings.Join(row, "\t"), " "))
	}
	_ = t.Flush() // a Builder takes all
}
