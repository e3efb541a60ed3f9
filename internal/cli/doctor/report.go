package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/checkup"
)

// Table writes findings for people: a line for each, and below it what to do.
func Table(w io.Writer, found []Finding) error {
	check, status := len("CHECK"), len("STATUS")
	for i := range found {
		check, status = max(check, len(found[i].Check)), max(status, len(found[i].Status))
	}
	var b strings.Builder
	line := func(columns ...string) {
		fmt.Fprintf(&b, "%-*s   %-*s   %s\n", check, columns[0], status, columns[1], columns[2])
	}
	line("CHECK", "STATUS", "FOUND")
	for i := range found {
		f := &found[i]
		shown := string(f.Status)
		if f.Status == checkup.Failed {
			shown = strings.ToUpper(shown)
		}
		line(f.Check, shown, f.Found)
		if f.Remedy != "" {
			line("", "", "-> "+f.Remedy)
		}
	}
	b.WriteString("\n" + summary(found) + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func summary(found []Finding) string {
	n := map[checkup.Status]int{}
	for i := range found {
		n[found[i].Status]++
	}
	if n[checkup.Failed]+n[checkup.Warning]+n[checkup.Skipped] == 0 {
		return fmt.Sprintf("All %d checks are ok.", len(found))
	}
	return fmt.Sprintf("Of %d checks %d failed, %d warned, %d were skipped.", len(found), n[checkup.Failed], n[checkup.Warning], n[checkup.Skipped])
}

// JSON writes findings for programs.
func JSON(w io.Writer, found []Finding) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		Failed   int       `json:"failed"`
		Findings []Finding `json:"findings"`
	}{Failures(found), found})
}
