// Command chartgen writes what of the charts follows from other files: the definitions of the kinds and
// the rights, which are copied, and from values.yaml its schema, the names of all values, by which the
// templates refuse others, and docs/reference/chart.md. Usage: chartgen ROOT.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: chartgen ROOT")
		os.Exit(2)
	}
	if err := generate(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "chartgen: %v\n", err)
		os.Exit(1)
	}
}

// generate writes every generated file of the repository at root.
func generate(root string) error {
	charts := filepath.Join(root, "deploy", "charts")
	chart := filepath.Join(charts, "karpenter")
	crds := filepath.Join(root, "config", "crd")
	rights := filepath.Join(root, "deploy", "kubernetes")
	for _, c := range []struct{ from, to, without string }{
		{crds, filepath.Join(charts, "karpenter-crd", "files"), ""},
		{crds, filepath.Join(chart, "crds"), "kwok"}, // Helm installs all of crds/, whatever the provider
		{rights, filepath.Join(chart, "files", "rights"), "controller"},
		{filepath.Join(rights, "optional"), filepath.Join(chart, "files", "rights"), ""},
		{filepath.Join(rights, "gates"), filepath.Join(chart, "files", "rights"), ""},
		{filepath.Join(rights, "providers"), filepath.Join(chart, "files", "rights"), ""},
	} {
		if err := copyYAML(c.from, c.to, c.without); err != nil {
			return err
		}
	}
	values, err := readValues(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return err
	}
	old, err := readOld(filepath.Join(chart, "files", "old-values.yaml"))
	if err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(chart, "values.schema.json"), schema(values, old)); err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(chart, "files", "names.json"), names(values)); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "docs", "reference", "chart.md"), reference(values, old), 0o644)
}

// copyYAML copies the YAML files of a directory into another, but for those with the word in their
// names.
func copyYAML(from, to, without string) error {
	files, err := filepath.Glob(filepath.Join(from, "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no *.yaml in %s: %w", from, err)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, file := range files {
		if without != "" && strings.Contains(filepath.Base(file), without) {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(file)), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func writeJSON(file string, v any) error {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}
