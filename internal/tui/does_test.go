package tui

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
)

// TestHelpersAreAskedAboutTheRowOrWhatIsOpen presses e, x and u on rows and in what covers them.
func TestHelpersAreAskedAboutTheRowOrWhatIsOpen(t *testing.T) {
	t.Parallel()
	var asked, saved []string
	base := "http://127.0.0.1:8090"
	helpers := Helpers{
		Events: func(_ context.Context, s journal.Subject) ([]string, error) {
			asked = append(asked, s.String())
			if s.Kind == journal.KindPool {
				return nil, errors.New("no right to list events")
			}
			return []string{"Normal  DisruptionBlocked  a\x1b[2J PodDisruptionBudget"}, nil
		},
		Types: func(_ context.Context, s journal.Subject) ([]string, error) {
			if s.Kind == journal.KindClaim {
				return nil, errors.New("no decision is known to have launched it")
			}
			return []string{"RANK  TYPE", "-     m5.large  too little memory"}, nil
		},
		Save: func(_ context.Context, id string) (string, error) {
			if saved = append(saved, id); id == "16.k3f9" {
				return "", errors.New("file exists")
			}
			return "decision-" + id + ".txt", nil
		},
		Link: func() string { return base },
	}
	for _, c := range []struct{ keys, shows string }{
		{"e", "events of node ip-10-0-3-9"},
		{"e", "DisruptionBlocked  a [2J PodDisruptionBudget"},
		{"o e", "no right to list events"},
		{"⏎ e", "events of node ip-10-0-3-9"},
		{"T", "why node ip-10-0-3-9 is of its instance type"},
		{"T", "m5.large  too little memory"},
		{"⏎ T", "m5.large  too little memory"},
		{"c T", "no decision is known to have launched it"},
		{"o T", "no node or NodeClaim is open"},
		{"⏎", "T why this type"},
		{"d e", "nothing that has events"},
		{"d x", "wrote decision 18.k3f9 to decision-18.k3f9.txt"},
		{"d down ⏎ x", "wrote decision 17.k3f9"},
		{"d G x", "file exists"},
		{"n x", "no decision is open"},
		{"d x up", "? keys"},
		{"u", "copied http://127.0.0.1:8090/node/ip-10-0-3-9"},
		{"c ⏎ u", "copied http://127.0.0.1:8090/node/ip-10-0-3-9"},
		{"o u", "copied http://127.0.0.1:8090/pool/batch"},
		{"d u", "copied http://127.0.0.1:8090/decision/18.k3f9"},
		{"b u", "copied http://127.0.0.1:8090/node/ip-10-0-2-2"},
		{"a u", "copied http://127.0.0.1:8090/offerings"},
		{"h u", "copied http://127.0.0.1:8090/"},
		{"$ u", "copied http://127.0.0.1:8090/decision/18.k3f9"},
	} {
		h := take(t, Options{Source: newKnown(t, small), Helpers: helpers}, 120, 30)
		h.press(c.keys)
		if s := h.screen(); !strings.Contains(s, c.shows) {
			t.Errorf("%s: does not show %q:\n%s", c.keys, c.shows, s)
		}
	}
	if !slices.Contains(asked, "nodepool batch") || !slices.Equal(saved, []string{"18.k3f9", "17.k3f9", "16.k3f9", "18.k3f9"}) {
		t.Errorf("events were asked for of %q, decisions %q saved", asked, saved)
	}
	base = ""
	h := take(t, Options{Source: newKnown(t, small), Helpers: helpers}, 120, 30)
	if h.press("u"); !strings.Contains(h.screen(), "no controller's pages") {
		t.Errorf("without pages u shows:\n%s", h.screen())
	}
	h = take(t, Options{Source: openRecording(t)}, 120, 30)
	for key, shows := range map[string]string{"n e": "this was read from a file", "n T": "no controller can be asked why node", "d x": "no controller can be asked for decision 18.k3f9", "u": "no controller's pages"} {
		if h.press(key); !strings.Contains(h.screen(), shows) {
			t.Errorf("of a recording %s shows:\n%s", key, h.screen())
		}
	}
}

// TestPriceIsThatOfDecisionsThatFoundAnother shows the prices of three decisions.
func TestPriceIsThatOfDecisionsThatFoundAnother(t *testing.T) {
	t.Parallel()
	h := take(t, Options{Source: newKnown(t, small)}, 120, 20)
	h.press("$")
	s := h.screen()
	for _, want := range []string{"PRICE(3)", "$1.0800  -", "$0.6800  -0.4000", "$0.8800  +0.2000", "100 %", "1 node to remove"} {
		if want = strings.TrimSuffix(want, "  -"); !strings.Contains(s, want) {
			t.Errorf("$ does not show %q:\n%s", want, s)
		}
	}
	h.press("s")
	if r := h.p.list().current(); r == nil || r.cells[2].text != "+0.2000" {
		t.Errorf("sorted by the change the first is %+v:\n%s", r, h.screen())
	}
}

// TestColumnsAreThoseThatAreNamed leaves columns out, the last named first.
func TestColumnsAreThoseThatAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		columns string
		width   int
		head    string
	}{
		{"name,zone,price", 100, "NAME ZONE $/H"},
		{"zone,name,state", 100, "NAME ZONE STATE"},
		{"zone,price,memory,cpu,name", 34, "$/H MEMORY ZONE"},
		{"waste", 100, "WASTE"},
	} {
		names := strings.Split(c.columns, ",")
		if err := CheckColumns(names); err != nil {
			t.Fatal(err)
		}
		h := take(t, Options{Source: newKnown(t, small), Columns: names}, c.width, 20)
		head := strings.Fields(strings.TrimPrefix(strings.Split(h.screen(), "\n")[3], "|"))
		slices.Sort(head)
		want := strings.Fields(c.head)
		slices.Sort(want)
		if !slices.Equal(head, want) {
			t.Errorf("--columns %s in %d columns shows %q, want %q:\n%s", c.columns, c.width, head, want, h.screen())
		}
	}
	if err := CheckColumns([]string{"name", "colour"}); err == nil || !strings.Contains(err.Error(), `"colour"; there are name, pool, type, capacity, price`) {
		t.Errorf("colour is a column: %v", err)
	}
}
