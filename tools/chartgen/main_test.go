package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestGeneratedFilesAreFresh compares the generated files with what would be written now, and looks for
// files beside the copies that nothing writes.
func TestGeneratedFilesAreFresh(t *testing.T) {
	t.Parallel()
	const root = "../.."
	files, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is out of date: run make generate", name)
		}
	}
	for _, dir := range []string{"deploy/charts/karpenter/crds", "deploy/charts/karpenter/files/rights", "deploy/charts/karpenter-crd/files", "deploy/charts/karpenter-crd/files/legacy"} {
		entries, err := os.ReadDir(filepath.Join(root, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if _, written := files[dir+"/"+e.Name()]; !written && !e.IsDir() {
				t.Errorf("nothing writes %s/%s: remove it", dir, e.Name())
			}
		}
	}
}
