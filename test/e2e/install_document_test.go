package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestInstallFromNothing runs the commands of docs/getting-started.md, from an empty directory to pods on
// new nodes and back to nothing. Its fences without a language are for builds, which make does here.
func TestInstallFromNothing(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "getting-started.md"))
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for _, fence := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		commands = append(commands, fence[1])
	}
	if len(commands) < 5 {
		t.Fatalf("%d fences were found", len(commands))
	}
	s := newShell(t, "", "helm")
	for _, dir := range []string{"deploy", "examples"} {
		if err := os.Symlink(filepath.Join(root, dir), filepath.Join(s.dir, dir)); err != nil {
			t.Fatal(err)
		}
	}
	// Whatever fails, nothing stays behind. Jobs of the page are numbered as in a terminal.
	const before = "set -m; trap 'cat controller.log; kill $(jobs -p) 2>/dev/null; wait' ERR\nset -x\n"
	out := s.run(before + strings.Join(commands, "\n"))
	if left := s.run("ls"); left != "deploy\nexamples\n" {
		t.Errorf("the commands leave behind:\n%s", left)
	}
	nodes := regexp.MustCompile(`(?m)^node/\S+ +Ready `).FindAllString(out, -1)
	if len(nodes) <= 2 { // the hosts of the controller
		t.Errorf("%d nodes are Ready at the end:\n%s", len(nodes), out)
	}
}
