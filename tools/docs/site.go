package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

//go:embed page.html
var layout string

// contents is the page whose lists are the navigation of all pages.
const contents = "docs/README.md"

// page is a Markdown file of the repository.
type page struct {
	// path is that of the file, from the repository's root, with slashes.
	path   string
	source []byte
	tree   ast.Node
	// anchors are the headings that can be linked to.
	anchors map[string]bool
	links   []link
}

// link is where a page points to.
type link struct {
	// target is as it is written; file is the path from the repository's root, empty for what is elsewhere.
	target, file, anchor string
	node                 ast.Node
}

// site is all pages that can be reached from the contents and the README, and the files they link to.
type site struct {
	root  string
	pages map[string]*page
	files map[string]bool
}

func markdown() goldmark.Markdown {
	return goldmark.New(
		goldmark.WithExtensions(extension.GFM),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(html.WithUnsafe()), // the documents are ours
	)
}

// readSite follows the links from the contents, and returns an error for each that leads nowhere.
func readSite(root string) (*site, error) {
	s := &site{root: root, pages: map[string]*page{}, files: map[string]bool{}}
	var wrong error
	waiting := []string{contents, "README.md"}
	for len(waiting) > 0 {
		at := waiting[0]
		waiting = waiting[1:]
		if s.pages[at] != nil {
			continue
		}
		p, err := s.read(at)
		if err != nil {
			return nil, err
		}
		s.pages[at] = p
		for _, l := range p.links {
			if l.file == "" {
				continue
			}
			info, err := os.Stat(filepath.Join(root, l.file))
			switch {
			case err != nil || strings.HasPrefix(l.file, "../"):
				wrong = errors.Join(wrong, fmt.Errorf("%s links to %s, which is not there", at, l.target))
			case strings.HasSuffix(l.file, ".md"):
				waiting = append(waiting, l.file)
			case info.IsDir():
				wrong = errors.Join(wrong, fmt.Errorf("%s links to the directory %s, which has no README.md; link to a file", at, l.target))
			default:
				s.files[l.file] = true
			}
		}
	}
	for _, p := range s.pages {
		for _, l := range p.links {
			if to := s.pages[l.file]; to != nil && l.anchor != "" && !to.anchors[l.anchor] {
				wrong = errors.Join(wrong, fmt.Errorf("%s links to %s, and %s has no such heading", p.path, l.target, l.file))
			}
		}
	}
	return s, wrong
}

// read parses a page, and resolves its links.
func (s *site) read(at string) (*page, error) {
	source, err := os.ReadFile(filepath.Join(s.root, at))
	if err != nil {
		return nil, err
	}
	p := &page{path: at, source: source, anchors: map[string]bool{}}
	p.tree = markdown().Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(&slugs{seen: p.anchors}))))
	return p, ast.Walk(p.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			p.links = append(p.links, s.resolve(at, string(n.Destination), n))
		case *ast.Image:
			p.links = append(p.links, s.resolve(at, string(n.Destination), n))
		}
		return ast.WalkContinue, nil
	})
}

// resolve returns what a link of a page points to.
func (s *site) resolve(from, target string, n ast.Node) link {
	l := link{target: target, node: n}
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return l
	}
	file, anchor, _ := strings.Cut(target, "#")
	l.file, l.anchor = from, anchor
	if file != "" {
		l.file = path.Join(path.Dir(from), file)
	}
	if info, err := os.Stat(filepath.Join(s.root, l.file, "README.md")); err == nil && !info.IsDir() {
		l.file = path.Join(l.file, "README.md")
	}
	return l
}

// slugs names headings as GitHub does, so that a link works there and on the site.
type slugs struct{ seen map[string]bool }

// Generate returns the name of a heading.
func (s *slugs) Generate(value []byte, _ ast.NodeKind) []byte {
	name := strings.Map(func(r rune) rune {
		switch {
		case r == ' ' || r == '-':
			return '-'
		case r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(string(value)))
	unique := name
	for i := 1; s.seen[unique]; i++ {
		unique = fmt.Sprintf("%s-%d", name, i)
	}
	s.seen[unique] = true
	return []byte(unique)
}

// Put notes a name that a heading has been given.
func (s *slugs) Put(value []byte) { s.seen[string(value)] = true }

// address returns where a file of the repository is on the site.
func address(file string) string {
	if dir, base := path.Split(file); base == "README.md" {
		return dir + "index.html"
	}
	if name, is := strings.CutSuffix(file, ".md"); is {
		return name + ".html"
	}
	return file
}

// between returns the relative link from one file's address to another's.
func between(from, to string) string {
	rel, err := filepath.Rel(path.Dir(address(from)), address(to))
	if err != nil {
		panic(err) // both are relative to the root
	}
	return filepath.ToSlash(rel)
}

// writeSite renders all pages.
func writeSite(root, output string) error {
	s, err := readSite(root)
	if err != nil {
		return err
	}
	if err := s.orphans(); err != nil {
		return err
	}
	if err := clearSite(output); err != nil {
		return err
	}
	for file := range s.files {
		content, err := os.ReadFile(filepath.Join(root, file))
		if err == nil {
			err = writeFile(filepath.Join(output, file), content)
		}
		if err != nil {
			return err
		}
	}
	for _, p := range s.pages {
		rendered, err := s.render(p)
		if err == nil {
			err = writeFile(filepath.Join(output, address(p.path)), rendered)
		}
		if err != nil {
			return err
		}
	}
	fmt.Printf("%d pages in %s; begin with %s\n", len(s.pages), output, filepath.Join(output, address(contents)))
	return nil
}

// orphans returns an error for each document that no other one leads to.
func (s *site) orphans() error {
	var wrong error
	err := filepath.WalkDir(filepath.Join(s.root, "docs"), func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(at, ".md") {
			return err
		}
		rel, err := filepath.Rel(s.root, at)
		if err == nil && s.pages[filepath.ToSlash(rel)] == nil {
			wrong = errors.Join(wrong, fmt.Errorf("no page links to %s; add it to %s", rel, contents))
		}
		return err
	})
	return errors.Join(wrong, err)
}

// clearSite makes the output an empty directory. It removes nothing but an earlier site.
func clearSite(output string) error {
	there, err := os.ReadDir(output)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(there) > 0 && !slices.ContainsFunc(there, func(e fs.DirEntry) bool { return e.Name() == "index.html" }) {
		return fmt.Errorf("-output: %s has files and is no site; name another directory", output)
	}
	return os.RemoveAll(output)
}

func writeFile(at string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	return os.WriteFile(at, content, 0o644)
}

// render returns a page as HTML, with the navigation beside it.
func (s *site) render(p *page) ([]byte, error) {
	body, err := s.html(p, p.path, p.tree)
	if err != nil {
		return nil, err
	}
	navigation, err := s.navigation(p.path)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = template.Must(template.New("page").Parse(layout)).Execute(&b, map[string]any{
		"Title": p.title(), "Home": between(p.path, contents), "Source": p.path,
		"Navigation": template.HTML(navigation), "Body": template.HTML(body), // both are rendered from our documents
	})
	return b.Bytes(), err
}

// html renders a part of a page, with its links as they are seen from another page.
func (s *site) html(p *page, from string, part ast.Node) ([]byte, error) {
	for _, l := range p.links {
		if l.file == "" {
			continue
		}
		target := between(from, l.file)
		if l.anchor != "" {
			target += "#" + l.anchor
		}
		switch n := l.node.(type) {
		case *ast.Link:
			n.Destination = []byte(target)
		case *ast.Image:
			n.Destination = []byte(target)
		}
	}
	var b bytes.Buffer
	err := markdown().Renderer().Render(&b, p.source, part)
	return b.Bytes(), err
}

// navigation returns the lists and headings of the contents, as they are seen from a page.
func (s *site) navigation(from string) ([]byte, error) {
	p := s.pages[contents]
	var all []byte
	for n := p.tree.FirstChild(); n != nil; n = n.NextSibling() {
		heading, is := n.(*ast.Heading)
		if n.Kind() != ast.KindList && !(is && heading.Level == 2) {
			continue
		}
		part, err := s.html(p, from, n)
		if err != nil {
			return nil, err
		}
		all = append(all, part...)
	}
	current := []byte(`<a href="` + between(from, from) + `"`)
	return bytes.ReplaceAll(all, current, append(current, ` aria-current="page"`...)), nil
}

// title returns the first heading of a page.
func (p *page) title() string {
	for n := p.tree.FirstChild(); n != nil; n = n.NextSibling() {
		if n.Kind() == ast.KindHeading {
			return string(n.Lines().Value(p.source))
		}
	}
	return p.path
}
