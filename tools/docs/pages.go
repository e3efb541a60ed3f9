package main

import (
	"errors"
	"os"
	"path/filepath"
)

// pages are the documents that follow from the code, by their paths from the repository's root.
func pages() map[string]func(root string) ([]byte, error) {
	return map[string]func(root string) ([]byte, error){
		"docs/reference/cli.md":        func(string) ([]byte, error) { return commandsPage(), nil },
		"docs/reference/api.md":        fieldsPage,
		"docs/reference/conditions.md": conditionsPage,
		"docs/reference/licenses.md":   licensesPage,
	}
}

// writePages writes those documents.
func writePages(root string) error {
	var all error
	for path, make := range pages() {
		text, err := make(root)
		if err == nil {
			err = os.WriteFile(filepath.Join(root, path), text, 0o644)
		}
		all = errors.Join(all, err)
	}
	return all
}
