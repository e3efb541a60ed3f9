package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/yuin/goldmark/ast"

	"github.com/dovetail-sh/dovetail/internal/cli"
)

const root = "../.."

// TestTheDocumentsLinkToWhatIsThere: no link between documents is dead, and each document can be reached.
func TestTheDocumentsLinkToWhatIsThere(t *testing.T) {
	t.Parallel()
	s, err := readSite(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.orphans(); err != nil {
		t.Error(err)
	}
}

// TestTheSite renders the documents and follows every link and anchor of the result.
func TestTheSite(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "site")
	if err := writeSite(root, out); err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	if err := filepath.WalkDir(out, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		texts[path] = string(text)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if len(texts) < 40 {
		t.Errorf("the site has %d files", len(texts))
	}
	links := regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	for path, text := range texts {
		if !strings.HasSuffix(path, ".html") {
			continue
		}
		if !strings.Contains(text, "<nav") || strings.Count(text, `aria-current="page"`) > 1 {
			t.Errorf("%s has not one place in the navigation", path)
		}
		for _, m := range links.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			to := path
			if file != "" {
				to = filepath.Join(filepath.Dir(path), file)
			}
			target, there := texts[to]
			if !there {
				t.Errorf("%s links to %s, which is not on the site", path, m[1])
			} else if anchor != "" && !strings.Contains(target, `id="`+anchor+`"`) {
				t.Errorf("%s links to %s, which has no such heading", path, m[1])
			}
		}
	}
}

// TestWhatIsWrongIsNamed reads documents whose links lead nowhere.
func TestWhatIsWrongIsNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		want  string // empty: nothing is wrong
	}{
		"good":                     {map[string]string{"docs/README.md": "[a](a.md#two-words)", "docs/a.md": "## Two words!"}, ""},
		"a page that is not there": {map[string]string{"docs/README.md": "[a](a.md)"}, "docs/README.md links to a.md, which is not there"},
		"a heading that is not there": {
			map[string]string{"docs/README.md": "[a](a.md#three)", "docs/a.md": "## Two"}, "docs/README.md links to a.md#three, and docs/a.md has no such heading",
		},
		"an orphan":                {map[string]string{"docs/README.md": "", "docs/b.md": ""}, "no page links to docs/b.md"},
		"above the root":           {map[string]string{"docs/README.md": "[up](../../x.md)"}, "../../x.md, which is not there"},
		"a directory":              {map[string]string{"docs/README.md": "[c](c)", "docs/c/x.txt": ""}, "the directory c"},
		"a directory with a page":  {map[string]string{"docs/README.md": "[c](c)", "docs/c/README.md": ""}, ""},
		"a link in a table's cell": {map[string]string{"docs/README.md": "| a |\n|---|\n| [x](x.md) |\n"}, "x.md, which is not there"},
	} {
		dir := t.TempDir()
		c.files["README.md"] = "# Dovetail"
		for path, text := range c.files {
			if err := writeFile(filepath.Join(dir, path), []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		s, err := readSite(dir)
		if err == nil {
			err = s.orphans()
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestPagesFollowFromTheCode writes the pages again and compares them.
func TestPagesFollowFromTheCode(t *testing.T) {
	t.Parallel()
	for path, write := range pages() {
		want, err := write(root)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if got, err := os.ReadFile(filepath.Join(root, path)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is out of date (%v): run make pages and commit", path, err)
		}
	}
}

// TestCommandsInTheDocumentsAreOnes parses each call of dovetail, and of make, that a fenced block shows.
func TestCommandsInTheDocumentsAreOnes(t *testing.T) {
	t.Parallel()
	s, err := readSite(root)
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, p := range s.pages {
		for _, line := range fenced(p) {
			for _, words := range calls(line) {
				n++
				if why := wrongCall(words, string(makefile)); why != "" {
					t.Errorf("%s: %s: %s", p.path, strings.Join(words, " "), why)
				}
			}
		}
	}
	if n < 60 {
		t.Errorf("only %d commands were found", n)
	}
}

// fenced returns the lines of a page's fenced blocks; those that end with a backslash go on in the next one.
func fenced(p *page) (lines []string) {
	_ = ast.Walk(p.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if block, is := n.(*ast.FencedCodeBlock); is && entering {
			text := strings.ReplaceAll(string(block.Lines().Value(p.source)), "\\\n", " ")
			lines = append(lines, strings.Split(text, "\n")...)
		}
		return ast.WalkContinue, nil
	})
	return lines
}

// calls returns the commands of a line that are dovetail's or make's, as words.
func calls(line string) (all [][]string) {
	line, _, _ = strings.Cut(" "+line, " #")
	for _, part := range regexp.MustCompile(`[|;]|&&?|\$\(|\)|>+ *\S+|<`).Split(line, -1) {
		words := strings.Fields(strings.TrimPrefix(strings.TrimSpace(part), "$ "))
		for len(words) > 0 && (strings.Contains(words[0], "=") || words[0] == "sudo" || words[0] == "exec") {
			words = words[1:]
		}
		if len(words) == 0 {
			continue
		}
		switch name := filepath.Base(words[0]); {
		case name == "kubectl" && len(words) > 1 && words[1] == "dovetail":
			all = append(all, append([]string{"dovetail"}, words[2:]...))
		case name == "go" && len(words) > 2 && words[2] == "./cmd/dovetail":
			all = append(all, append([]string{"dovetail"}, words[3:]...))
		case slices.Contains([]string{"dovetail", "bin/dovetail", "./bin/dovetail"}, words[0]) && !(len(words) > 1 && strings.HasSuffix(words[1], ":")), words[0] == "make":
			all = append(all, append([]string{name}, words[1:]...))
		}
	}
	return all
}

// wrongCall says what is wrong with a command; empty: nothing.
func wrongCall(words []string, makefile string) string {
	if words[0] == "make" {
		for _, w := range words[1:] {
			if !strings.ContainsAny(w, "=-…") && !regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(w)+`:`).MatchString(makefile) && !strings.Contains(makefile, "\n"+w+":") {
				return "make has no target " + w
			}
		}
		return ""
	}
	words = slices.DeleteFunc(slices.Clone(words[1:]), func(w string) bool { return w == "…" || w == "..." })
	root := cli.Command()
	root.InitDefaultCompletionCmd()
	cmd, args, err := root.Find(words)
	if err != nil {
		return err.Error()
	}
	if !cmd.HasParent() && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		return "there is no command " + args[0]
	}
	return parse(cmd, args)
}

// parse reads the flags of a call. A flag at its end may lack its value.
func parse(cmd *cobra.Command, args []string) string {
	if err := cmd.ParseFlags(args); err != nil && !strings.Contains(err.Error(), "needs an argument") {
		return err.Error()
	}
	return ""
}

func TestWhatIsNoCommandIsSeen(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"$ dovetail explain pod/web-1 -o json   # why": true, "bin/dovetail crds | kubectl apply --server-side --force-conflicts -f -": true, "kubectl dovetail replay --id 17": true,
		"A=b dovetail snapshot --file x && make test": true, "make bench QUICK=1": true, "dovetail: no subnets found": true, "dovetail demo: 50 pods": true, "cmd/dovetail   main only": true, "dovetail completion bash": true,
		"go run ./cmd/dovetail simulate --live": true, "go run ./cmd/dovetail simulate --life": false,
		"dovetail explane pod/web-1": false, "dovetail explain pod/web-1 --outptu json": false, "x | kubectl dovetail nothing": false, "make nothing": false,
	} {
		ok := true
		for _, words := range calls(line) {
			ok = ok && wrongCall(words, "bench:\ntest:\n") == ""
		}
		if ok != want {
			t.Errorf("%s: taken as %v, want %v", line, ok, want)
		}
	}
}
