package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// TestArchitectureMatchesTheTree compares the tree with the list of rooms in
// ARCHITECTURE.md: the first fenced block in which a line starts with
// "cmd/dovetail". The first word of each of its lines that does not start with a
// space is a room:
//
//	internal/kube/mirror          the package in that directory
//	internal/controller/*    every package below that directory, at any depth
//
// Every package of the module must be in a room, and every room must exist, if
// not as a package then as a directory (another module, a directory of data).
// A trailing slash and lines that start with "-" do not count.
func TestArchitectureMatchesTheTree(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	list := rooms(string(text))
	if len(list) == 0 {
		t.Fatal("ARCHITECTURE.md has no fenced block with a line that starts with cmd/dovetail")
	}
	for _, room := range list {
		if info, err := os.Stat(filepath.Join(root, strings.TrimSuffix(room, "/*"))); err != nil || !info.IsDir() {
			t.Errorf("ARCHITECTURE.md names %s, which is not there", room)
		}
	}
	for _, p := range packages(t) {
		if dir := strings.TrimPrefix(p.ImportPath, module); !covered(dir, list) {
			t.Errorf("ARCHITECTURE.md does not name %s", dir)
		}
	}
}

func rooms(text string) []string {
	var list []string
	fenced, found := false, false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			if found {
				return list
			}
			fenced, list = !fenced, nil
			continue
		}
		if !fenced || strings.TrimSpace(line) == "" || strings.HasPrefix(line, " ") || strings.HasPrefix(line, "-") {
			continue
		}
		room := strings.TrimSuffix(strings.Fields(line)[0], "/")
		list = append(list, room)
		found = found || room == "cmd/dovetail"
	}
	return nil
}

func covered(dir string, rooms []string) bool {
	for _, room := range rooms {
		below, tree := strings.CutSuffix(room, "*")
		if dir == room || (tree && strings.HasPrefix(dir, below)) {
			return true
		}
	}
	return false
}

func TestRooms(t *testing.T) {
	t.Parallel()
	const text = "# Title\n```\nanother/block\n```\ntext\n```text\ncmd/dovetail   main\n  and more\n---- floor\ninternal/a/    a room\ninternal/b/*   rooms\n```\n```\nlater/block\n```\n"
	got := strings.Join(rooms(text), " ")
	if want := "cmd/dovetail internal/a internal/b/*"; got != want {
		t.Errorf("rooms = %q, want %q", got, want)
	}
	for dir, want := range map[string]bool{"internal/a": true, "internal/a/c": false, "internal/b/c/d": true, "internal/bc": false, "internal/b": false} {
		if got := covered(dir, rooms(text)); got != want {
			t.Errorf("covered(%s) = %v, want %v", dir, got, want)
		}
	}
}
