package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestTheFilesAreAsTheyWouldBeWritten generates anew and compares byte by byte.
func TestTheFilesAreAsTheyWouldBeWritten(t *testing.T) {
	t.Parallel()
	const proto = "../../api/provider/v1/provider.proto"
	files, err := generate(t.Context(), proto)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 2 {
		t.Fatalf("%d files are written, want the messages and the service", len(files))
	}
	for _, f := range files {
		path := filepath.Join(filepath.Dir(proto), filepath.Base(f.GetName()))
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != f.GetContent() {
			t.Errorf("%s is out of date: make generate rewrites it", path)
		}
	}
}
