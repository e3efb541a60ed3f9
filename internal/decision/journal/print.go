package journal

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Print writes answers as a person reads them: what was decided last first, then all that
// was decided, the newest first. How long ago that was is counted from now.
func Print(w io.Writer, answers []Answer, now time.Time) error {
	for i := range answers {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := answers[i].print(w, now); err != nil {
			return err
		}
	}
	return nil
}

func (a *Answer) print(w io.Writer, now time.Time) error {
	head := a.Kind + " " + a.Name
	if a.Node != "" && a.Node != a.Name {
		head += ", node " + a.Node
	}
	if a.Claim != "" && a.Claim != a.Name {
		head += ", claim " + a.Claim
	}
	if a.Pool != "" {
		head += ", pool " + a.Pool
	}
	switch {
	case a.Now != "":
		head += ": " + a.Now
	case len(a.Says) > 0:
		head += ": " + a.Says[0].What
	}
	fmt.Fprintln(w, head)
	if a.Ends != "" {
		fmt.Fprintln(w, "  until "+a.Ends)
	}
	for _, f := range a.Facts {
		fmt.Fprintln(w, "  "+f)
	}
	if a.Ranking != nil {
		if err := a.Ranking.Print(w); err != nil {
			return err
		}
	}
	if len(a.Says) == 0 && a.Now != "" {
		return nil
	}
	if len(a.Says) == 0 {
		_, err := fmt.Fprintln(w, "  nothing was decided about it")
		return err
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  FIRST\tLAST\tTIMES\tDECISION\tWHAT")
	for i := range a.Says {
		s := &a.Says[i]
		fmt.Fprintf(t, "  %s\t%s\t%d\t%s\t%s\n", ago(s.First, now), ago(s.Last, now), s.Times, s.decision(), s.What)
		for _, detail := range s.Details {
			fmt.Fprintf(t, "  \t\t\t\t  %s\n", detail)
		}
		if s.Ends != "" {
			fmt.Fprintf(t, "  \t\t\t\t  until %s\n", s.Ends)
		}
	}
	return t.Flush()
}

func (s *Say) decision() string {
	if s.Decision.IsZero() {
		return "not kept"
	}
	return s.Decision.String()
}

// ago returns how long ago a time was, in one or two units.
func ago(t, now time.Time) string {
	d := now.Sub(t)
	switch {
	case d < 0:
		return stamp(t)
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", int(d.Seconds()))
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s") + " ago"
	default:
		return fmt.Sprintf("%dd ago", int(d.Hours()/24))
	}
}
