package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// platforms are those of a release: each may need a module that others do not.
var platforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"}

// module is one whose code is in the program.
type module struct {
	path, version, dir string
	// texts are its licences and notices, by the name of the file.
	texts map[string]string
}

// modules returns the modules of the program on all platforms, in order of their paths.
func modules(root string) ([]module, error) {
	found := map[string]module{}
	for _, p := range platforms {
		system, arch, _ := strings.Cut(p, "/")
		cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}", "./cmd/dovetail")
		cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+system, "GOARCH="+arch)
		var wrong bytes.Buffer
		cmd.Stderr = &wrong
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("list the modules for %s: %w\n%s", p, err, &wrong)
		}
		for line := range strings.Lines(string(out)) {
			if f := strings.Fields(line); len(f) == 3 {
				found[f[0]] = module{path: f[0], version: f[1], dir: f[2]}
			}
		}
	}
	var all []module
	for _, m := range found {
		var err error
		if m.texts, err = legal(m.dir); err != nil {
			return nil, err
		}
		if len(m.texts) == 0 {
			return nil, fmt.Errorf("%s %s has no licence", m.path, m.version)
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b module) int { return strings.Compare(a.path, b.path) })
	return all, nil
}

// legal returns the files of a module that say what is allowed, and whom to name.
func legal(dir string) (map[string]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for _, e := range entries {
		if e.IsDir() || !regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|copyright)([.-].*)?$`).MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		texts[e.Name()] = string(text)
	}
	return texts, nil
}

// licenses returns the identifiers (SPDX) of the licences that the texts of a module are.
func (m module) licenses() []string {
	var all []string
	for _, text := range m.texts {
		for _, match := range licensecheck.Scan([]byte(text)).Match {
			all = append(all, match.ID)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// licensesPage is the list of the modules and their licences.
func licensesPage(root string) ([]byte, error) {
	all, err := modules(root)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Licenses\n\nDovetail is under the Apache License 2.0. The program contains code of these %d modules, and Go's standard library (BSD-3-Clause). Their texts are in\n"+
		"`NOTICES.txt` of each archive of a release. `make pages` writes this page from the module graph, and a test compares them.\n\n| module | version | license |\n|---|---|---|\n", len(all))
	for _, m := range all {
		ids := m.licenses()
		if len(ids) == 0 {
			return nil, fmt.Errorf("%s %s: its licence is not recognized", m.path, m.version)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", m.path, m.version, strings.Join(ids, ", "))
	}
	return b.Bytes(), nil
}

// writeNotices writes the texts of all licences, as they ask to be passed on.
func writeNotices(root, path string) error {
	all, err := modules(root)
	if err != nil {
		return err
	}
	std, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	texts, err := legal(strings.TrimSpace(string(std)))
	if err != nil {
		return err
	}
	if len(texts) > 0 { // a toolchain of a distribution may have its licence elsewhere
		all = append(all, module{path: "Go standard library", texts: texts})
	}
	var b bytes.Buffer
	for _, m := range all {
		names := make([]string, 0, len(m.texts))
		for name := range m.texts {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			fmt.Fprintf(&b, "%s\n%s %s: %s\n\n%s\n\n", strings.Repeat("=", 80), m.path, m.version, name, strings.TrimSpace(m.texts[name]))
		}
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
