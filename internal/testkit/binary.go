package testkit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Binary returns the path of a program: devcluster or dovetail, which make build builds, karpenter,
// which make karpenter builds, image, the directory that make bin/image writes, or helm, helm3, kubectl or registry, which
// make install-tools builds, or capi, the directory that make bin/capi fills. It is that in the environment variable DEVCLUSTER_BIN and so on, else that in the directory bin of
// the working directory or the nearest directory above. The test is skipped with -short, when the variable is "none",
// and when it is not set and the program is not built. It fails when the variable names
// a file that does not exist, so that make test-cluster and make test-install, which set them, skip nothing.
func Binary(t testing.TB, name string) string {
	t.Helper()
	if testing.Short() {
		target := "test-cluster, or make build and go test without -short"
		if name == "capi" {
			target = "test-capi"
		}
		t.Skipf("-short leaves out what needs bin/%s: run make %s", name, target)
	}
	path, err := findBinary(name)
	if errors.Is(err, errNotBuilt) || errors.Is(err, errLeftOut) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Long skips a test with -short, because it takes long. Make test-sim runs it.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short leaves out what takes long: run make test-sim")
	}
}

// Unraced skips a test with the race detector, because it takes long then and what it tests has one goroutine.
func Unraced(t testing.TB) {
	t.Helper()
	if Raced {
		t.Skip("the race detector sees nothing in one goroutine")
	}
}

var (
	errNotBuilt = errors.New("is not built")
	errLeftOut  = errors.New("leaves out what needs it")
)

func findBinary(name string) (string, error) {
	variable := strings.ToUpper(name) + "_BIN"
	switch path := os.Getenv(variable); path {
	case "":
	case "none":
		return "", fmt.Errorf("%s=none %w", variable, errLeftOut)
	default:
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%s: %w", variable, err)
		}
		return path, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	for {
		path := filepath.Join(dir, "bin", name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			target := "build"
			switch name {
			case "karpenter":
				target = name
			case "image":
				target = "bin/image"
			case "helm", "helm3", "kubectl", "registry":
				target = "install-tools"
			}
			return "", fmt.Errorf("bin/%s %w: run make %s", name, errNotBuilt, target)
		}
		dir = up
	}
}
