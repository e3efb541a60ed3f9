package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// program is a main package that says with which arguments it was called.
const program = "package main\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc main() { fmt.Println(os.Args[1:]) }\n"

// newRelease orders a release of a small program, with everything that a release can have, from files
// that are made at another time and in another directory at each call.
func newRelease(t *testing.T) *release {
	t.Helper()
	dir := t.TempDir()
	for path, text := range map[string]string{
		"cmd/go.mod": "module program\n\ngo 1.26\n", "cmd/main.go": program, "LICENSE": "a licence", "man/man1/dovetail.1": ".TH DOVETAIL 1",
		"charts/karpenter/Chart.yaml":           "apiVersion: v2\nname: karpenter\nversion: 0.0.0\nappVersion: \"0.0.0\"\n",
		"charts/karpenter/templates/a/pod.yaml": "kind: Pod\n", "charts/karpenter-crd/Chart.yaml": "apiVersion: v2\nname: karpenter-crd\nversion: 0.0.0\n",
		"charts/README.md": "no chart", "image/oci-layout": "{}", "image/blobs/sha256/aa": "blob", "image/sbom-linux-amd64.cdx.json": "{}",
	} {
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return &release{
		source: filepath.Join(dir, "cmd"), output: filepath.Join(dir, "out"), version: "1.2.3", revision: "abcdef0123",
		created: time.Date(2026, 11, 25, 12, 0, 0, 0, time.FixedZone("", 3600)), platforms: []string{"linux/" + runtime.GOARCH, "darwin/arm64"},
		beside: []string{filepath.Join(dir, "LICENSE"), filepath.Join(dir, "man")}, charts: filepath.Join(dir, "charts"), image: filepath.Join(dir, "image"),
	}
}

// TestTheSameCommitGivesTheSameRelease builds twice, in two directories, and compares every byte.
func TestTheSameCommitGivesTheSameRelease(t *testing.T) {
	t.Parallel()
	var made [2]map[string]string
	for i := range made {
		r := newRelease(t)
		if err := r.write(); err != nil {
			t.Fatal(err)
		}
		made[i] = readAll(t, r.output)
	}
	for name, text := range made[0] {
		if made[1][name] != text {
			t.Errorf("%s differs", name)
		}
	}
	want := []string{
		"dovetail_1.2.3_linux_" + runtime.GOARCH + ".tar.gz", "dovetail_1.2.3_darwin_arm64.tar.gz", "karpenter-1.2.3.tgz", "karpenter-crd-1.2.3.tgz",
		"dovetail-image_1.2.3.oci.tar", "dovetail_1.2.3_linux_amd64.cdx.json", sums,
	}
	if len(made[0]) != len(want) || len(made[1]) != len(want) {
		t.Errorf("there are %d and %d files, want %d", len(made[0]), len(made[1]), len(want))
	}
	for _, name := range want {
		text, there := made[0][name]
		if !there {
			t.Errorf("there is no %s", name)
		}
		if line := fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(text)), name); name != sums && !strings.Contains(made[0][sums], line) {
			t.Errorf("%s has no line %s", sums, line)
		}
	}
}

func readAll(t *testing.T, directory string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(directory)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(directory, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(text)
	}
	return all
}

// TestWhatIsInAnArchive unpacks the archive of this platform and runs the program by each of its names.
func TestWhatIsInAnArchive(t *testing.T) {
	t.Parallel()
	r := newRelease(t)
	if err := r.write(); err != nil {
		t.Fatal(err)
	}
	name := "dovetail_1.2.3_linux_" + runtime.GOARCH
	root := t.TempDir()
	unpack(t, filepath.Join(r.output, name+".tar.gz"), root, r.created)
	for _, path := range []string{"LICENSE", "man/man1/dovetail.1"} {
		if _, err := os.Stat(filepath.Join(root, name, path)); err != nil {
			t.Error(err)
		}
	}
	if runtime.GOOS != "linux" {
		return
	}
	for _, called := range []string{"dovetail", "kubectl-dovetail", "kubectl_complete-dovetail"} {
		if out, err := exec.Command(filepath.Join(root, name, called), "version").CombinedOutput(); err != nil || string(out) != "[version]\n" {
			t.Errorf("%s says %q, %v", called, out, err)
		}
	}
	chart := t.TempDir()
	unpack(t, filepath.Join(r.output, "karpenter-1.2.3.tgz"), chart, r.created)
	text, err := os.ReadFile(filepath.Join(chart, "karpenter/Chart.yaml"))
	if err != nil || string(text) != "apiVersion: v2\nname: karpenter\nversion: 1.2.3\nappVersion: \"1.2.3\"\n" {
		t.Errorf("the chart is\n%s%v", text, err)
	}
	if _, err := os.Stat(filepath.Join(chart, "karpenter/templates/a/pod.yaml")); err != nil {
		t.Error(err)
	}
}

// TestTheImageIsWhole compares the files of the image's archive with those of the layout.
func TestTheImageIsWhole(t *testing.T) {
	t.Parallel()
	r := newRelease(t)
	r.platforms = nil
	if err := r.write(); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	unpack(t, filepath.Join(r.output, "dovetail-image_1.2.3.oci.tar"), root, r.created)
	for _, name := range []string{"oci-layout", "blobs/sha256/aa"} {
		want, err1 := os.ReadFile(filepath.Join(r.image, name))
		got, err2 := os.ReadFile(filepath.Join(root, name))
		if err := errors.Join(err1, err2); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is %q, want %q (%v)", name, got, want, err)
		}
	}
}

// unpack unpacks an archive, all of whose files have the time at.
func unpack(t *testing.T, path, root string, at time.Time) {
	t.Helper()
	packed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	plain := io.Reader(bytes.NewReader(packed))
	if !strings.HasSuffix(path, ".oci.tar") {
		if plain, err = gzip.NewReader(plain); err != nil {
			t.Fatal(err)
		}
	}
	r := tar.NewReader(plain)
	for last := ""; ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if !header.ModTime.Equal(at) || header.Uid != 0 || header.Uname != "" {
			t.Errorf("%s: %s has the time %s and the owner %d %q", path, header.Name, header.ModTime, header.Uid, header.Uname)
		}
		if header.Name <= last {
			t.Errorf("%s: %s comes after %s", path, header.Name, last)
		}
		last = header.Name
		to := filepath.Join(root, header.Name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeSymlink {
			err = os.Symlink(header.Linkname, to)
		} else {
			var text []byte
			if text, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(to, text, os.FileMode(header.Mode))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestMistakesAreNamed: what is wrong with the call is said in one line.
func TestMistakesAreNamed(t *testing.T) {
	t.Parallel()
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "precious"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const good = "-version 1.2.3 -created 2026-11-25T12:00:00Z -platforms linux/" + runtime.GOARCH + " "
	for args, want := range map[string]string{
		"":                                  "-version is \"\"",
		"-version v1.2.3":                   "without a v",
		"-version 1.2.3 -created yesterday": "-created",
		good + "-output " + full:            "has files and is no release",
		good + "-platforms linux -output " + t.TempDir():              "must read as linux/amd64",
		good + "-source none -output " + t.TempDir():                  "build for linux/" + runtime.GOARCH,
		good + "-beside none -output " + t.TempDir():                  "-beside",
		good + "-source . -charts none -output " + t.TempDir():        "none has no chart",
		good + "-source . -image " + full + " -output " + t.TempDir(): "is no OCI layout",
	} {
		if err := run(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("release %s: %v, want %q", args, err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(full, "precious")); err != nil {
		t.Error(err)
	}
}
