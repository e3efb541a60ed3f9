package table

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/dovetail-sh/dovetail/internal/view"
)

// hoursAMonth is what cloud bills count a month as.
const hoursAMonth = 730

// Money returns dollars: with cents from ten dollars on, else with four digits.
func Money(dollars float64) string {
	if dollars >= 10 || dollars <= -10 {
		return fmt.Sprintf("$%.2f", dollars)
	}
	return fmt.Sprintf("$%.4f", dollars)
}

// Monthly returns what a price per hour is a month.
func Monthly(hourly float64) string { return fmt.Sprintf("$%.0f", hourly*hoursAMonth) }

// Price returns a price that may not be known.
func Price(dollars float64, known bool) string {
	if !known {
		return "?"
	}
	return Money(dollars)
}

// Share returns a part as percent.
func Share(part float64) string { return fmt.Sprintf("%.1f %%", 100*part) }

// Percent returns how much of a whole is used.
func Percent(used, whole int64) string {
	if whole <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*float64(used)/float64(whole))
}

// Cores returns millicores as cores.
func Cores(milli int64) string {
	if milli%1000 == 0 || milli >= 100_000 {
		return fmt.Sprintf("%d", milli/1000)
	}
	return strings.TrimRight(fmt.Sprintf("%.2f", float64(milli)/1000), "0")
}

// Bytes returns an amount of memory.
func Bytes(n int64) string {
	const step = 1024
	units, at, f := []string{"", "Ki", "Mi", "Gi", "Ti", "Pi"}, 0, float64(n)
	for at < len(units)-1 && f >= step {
		f /= step
		at++
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", f), ".0") + units[at]
}

// Amount returns an amount of a resource.
func Amount(resource string, n int64) string {
	switch resource {
	case "cpu":
		return Cores(n)
	case "memory", "ephemeral-storage":
		return Bytes(n)
	default:
		return fmt.Sprint(n)
	}
}

// duration returns a length of time in at most two units.
func duration(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd", int(d.Hours())/24)
	}
}

// Clock returns a time of day where the reader is, with the date if it is not soon.
func Clock(at time.Time) string { return at.Local().Format("Jan 2 15:04:05") }

// plain returns a text on one line, without characters that draw nothing or move the cursor.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "ch") {
		noun += "e"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func nodeCounts(c view.NodeCounts, foreign int) string {
	parts := []string{fmt.Sprintf("%d ready", c.Ready)}
	for _, p := range []struct {
		n    int
		what string
	}{{c.Starting, "starting"}, {c.NotReady, "not ready"}, {c.Terminating, "terminating"}, {foreign, "of others"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return strings.Join(parts, ", ")
}

func priceLine(p *view.Price) string {
	text := fmt.Sprintf("%s/h, %s a month; spot %s of it", Money(p.Hourly), Monthly(p.Hourly), Share(p.SpotShare()))
	if p.Unpriced > 0 {
		text += fmt.Sprintf("; the price of %s is not known", counted(p.Unpriced, "node"))
	}
	return text
}

func boundLine(b *view.Bound) string {
	if b == nil {
		return "not known: no search of all nodes was made while no node came or went"
	}
	held := "all nodes free to go"
	if b.NodesHeld > 0 {
		held = fmt.Sprintf("%s (%s/h) held as they were", counted(b.NodesHeld, "node"), Money(b.HeldHourly))
	}
	return fmt.Sprintf("%s/h with %s; %s/h was paid at %s, a gap of at most %s", Money(b.LeastHourly), held, Money(b.PriceHourly), Clock(b.At), Share(b.Gap()))
}

func usageLine(used, whole int64, text func(int64) string) string {
	return fmt.Sprintf("%s: %s of %s asked for", Percent(used, whole), text(used), text(whole))
}

// Ends returns what a status ends with, in few words.
func Ends(s *view.Status, now time.Time) string {
	switch {
	case s.Until.After(now):
		return Clock(s.Until)
	case s.Cause.Reason != "":
		return string(s.Cause.Reason)
	default:
		return ""
	}
}

// LimitText returns the limits of a pool and how much of them is used.
func LimitText(limits []view.Limit) string {
	var parts []string
	for _, l := range limits {
		parts = append(parts, fmt.Sprintf("%s %s/%s", l.Resource, Amount(l.Resource, l.Used), Amount(l.Resource, l.Limit)))
	}
	return strings.Join(parts, ", ")
}

// BudgetText returns how many nodes may be disrupted now; once if that is the same for all reasons.
func BudgetText(budgets []view.Budget, now time.Time) string {
	var parts []string
	same := true
	for i := range budgets {
		b := &budgets[i]
		text := "any"
		if b.Allowed >= 0 {
			text = fmt.Sprintf("%d of %d", max(0, b.Allowed-b.Used), b.Allowed)
		}
		if b.Opens.After(now) {
			text += ", more at " + Clock(b.Opens)
		}
		parts = append(parts, text)
		same = same && text == parts[0]
	}
	if same && len(parts) > 0 {
		return parts[0]
	}
	for i := range parts {
		parts[i] = budgets[i].Reason + " " + parts[i]
	}
	return strings.Join(parts, "; ")
}

// AfterText returns consolidateAfter.
func AfterText(seconds float64) string {
	if seconds < 0 {
		return "Never"
	}
	return time.Duration(seconds * float64(time.Second)).String()
}

func readyText(unready string) string {
	if unready == "" {
		return "yes"
	}
	return "no: " + unready
}

// CauseText returns what keeps nodes.
func CauseText(c view.Cause, inUse bool) string {
	switch {
	case c.Object != "":
		return c.Kind + " " + c.Object
	case c.Kind != "":
		return c.Kind
	case inUse:
		return "their own pods"
	default:
		return ""
	}
}

// WhenText returns when an entry is due.
func WhenText(e *view.Entry) string {
	switch {
	case e.Now:
		return "now"
	case !e.At.IsZero():
		return Clock(e.At)
	default:
		return "then"
	}
}

// cond returns what can still stop an entry, or what it waits for.
func cond(e *view.Entry) string {
	switch {
	case e.Unless != "" && !e.At.IsZero():
		return e.Unless
	case e.When != "" && e.Unless != "":
		return "waits: " + e.When + "; " + e.Unless
	case e.When != "" && e.At.IsZero():
		return "waits: " + e.When
	default:
		return e.Unless
	}
}
