package tui

import (
	"strings"
	"testing"
)

// TestNodeLabels shows labels of nodes, sorts and filters by them.
func TestNodeLabels(t *testing.T) {
	t.Parallel()
	const nodes = `
type four cpu=4 memory=8Gi price=0.20
pool general
node a pool=general type=four label=example.com/team:red
node b pool=general type=four label=example.com/team:blue
node c pool=general type=four`
	h := take(t, Options{Source: newKnown(t, nodes), NodeLabels: []string{"example.com/team", "none"}, Columns: []string{"name"}}, 120, 20)
	if screen := h.screen(); !strings.Contains(screen, "TEAM") || !strings.Contains(screen, "NONE") || !strings.Contains(screen, "red") || strings.Contains(screen, "POOL") {
		t.Errorf("the labels are not there:\n%s", screen)
	}
	h.press("/-l space example.com/team=blue")
	if screen := h.screen(); strings.Contains(screen, "red") || !strings.Contains(screen, "blue") {
		t.Errorf("filtered by the label:\n%s", screen)
	}
	if screen := take(t, Options{Source: newKnown(t, nodes)}, 200, 20).screen(); strings.Contains(screen, "red") || strings.Contains(screen, "TEAM") {
		t.Errorf("a label is shown that nobody asked for:\n%s", screen)
	}
}
