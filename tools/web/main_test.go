package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"testing"
)

// scriptBytesMost bounds the script, compressed.
const scriptBytesMost = 60 << 10

func TestTheBundleIsUpToDate(t *testing.T) {
	const root = "../.."
	want, err := bundle(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(bundlePath(root))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what its sources give: run make script and commit it", bundlePath(root))
	}
	var small bytes.Buffer
	z := gzip.NewWriter(&small)
	if _, err := z.Write(want); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("the script has %d bytes, %d compressed", len(want), small.Len())
	if small.Len() > scriptBytesMost {
		t.Errorf("the script has %d bytes compressed, more than %d", small.Len(), scriptBytesMost)
	}
}
