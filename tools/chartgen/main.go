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
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: chartgen ROOT")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "chartgen: %v\n", err)
		os.Exit(1)
	}
}

func write(root string) error {
	files, err := generate(root)
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generate returns every generated file of the repository at root.
func generate(root string) (map[string][]byte, error) {
	const chart, rights = "deploy/charts/karpenter", "deploy/kubernetes"
	files := map[string][]byte{}
	for _, c := range []struct{ from, to, without string }{
		{"config/crd", "deploy/charts/karpenter-crd/files", ""},
		{"config/crd", chart + "/crds", "kwok clusterapi"}, // Helm installs all of crds/, whatever the provider
		{rights, chart + "/files/rights", "controller"},
		{rights + "/optional", chart + "/files/rights", "savings"}, // which is for people
		{rights + "/gates", chart + "/files/rights", ""},
		{rights + "/providers", chart + "/files/rights", ""},
		{rights + "/legacy", chart + "/files/rights", ""},
		{"config/crd/legacy", "deploy/charts/karpenter-crd/files/legacy", ""},
	} {
		if err := addCopies(files, root, c.from, c.to, c.without); err != nil {
			return nil, err
		}
	}
	values, err := readValues(filepath.Join(root, chart, "values.yaml"))
	if err != nil {
		return nil, err
	}
	olds, err := readOld(filepath.Join(root, chart, "files", "old-values.yaml"))
	if err != nil {
		return nil, err
	}
	files["docs/reference/chart.md"] = reference(values, olds)
	if files[chart+"/values.schema.json"], err = indented(schema(values, olds)); err != nil {
		return nil, err
	}
	files[chart+"/files/names.json"], err = indented(names(values))
	return files, err
}

// addCopies adds copies of the YAML files of a directory, but for those with one of the words in
// their names.
func addCopies(files map[string][]byte, root, from, to, without string) error {
	found, err := filepath.Glob(filepath.Join(root, from, "*.yaml"))
	if err != nil || len(found) == 0 {
		return fmt.Errorf("no *.yaml in %s: %w", from, err)
	}
	for _, file := range found {
		name := filepath.Base(file)
		if slices.ContainsFunc(strings.Fields(without), func(word string) bool { return strings.Contains(name, word) }) {
			continue
		}
		if files[to+"/"+name], err = os.ReadFile(file); err != nil {
			return err
		}
	}
	return nil
}

func indented(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return out.Bytes(), err
}
