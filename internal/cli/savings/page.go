package savings

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{ //nolint:gochecknoglobals // never changes
	"dollars": dollars,
	"counted": counted,
	"price":   priceText,
	"inc":     func(i int) int { return i + 1 },
	"part":    func(part, whole float64) string { return fmt.Sprintf("%.1f", 100*part/max(whole, part, 1e-9)) },
	"isCost":  func(saves float64) bool { return saves < 0 },
	"minus":   func(x float64) float64 { return -x },
}).Parse(pageText))

// WritePage writes the report as one HTML page that needs nothing else: no script, no other file.
func (r *Report) WritePage(w io.Writer) error {
	if err := page.Execute(w, r); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// Table is one table of lines, as the page shows it.
type Table struct {
	What, Counts, Note string
	Lines              []Line
}

// Tables returns the tables of lines in their order.
func (r *Report) Tables() []Table {
	return []Table{
		{"instance type", "Nodes", "", r.Types},
		{"NodePool", "Nodes", "", r.Pools},
		{"workload", "Pods", "The price of a node is shared among its pods by what they ask for: the larger part of cpu or memory. Free room is a line of its own.", r.Workloads},
	}
}
