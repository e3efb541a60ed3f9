// Command release writes what a release consists of: an archive of the program for each platform, the
// charts, the container image, and the checksums of all of them. The same commit and version give the
// same bytes: archives have the time of the commit, no owner, and the files in order of their names.
package main

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// sums is the file with the checksums, by which an earlier release is known as one.
const sums = "SHA256SUMS"

// links are the names by which the program is called besides its own: that of a plugin of kubectl, and
// the one that kubectl asks how to complete a line.
var links = []string{"kubectl-dovetail", "kubectl_complete-dovetail"}

// release is what is to be made.
type release struct {
	// source is the directory of the main package, output where everything is written.
	source, output    string
	version, revision string
	created           time.Time
	platforms         []string
	// beside are files and directories that go into each archive beside the program.
	beside []string
	// charts is a directory with a chart in each directory; image is an OCI layout. Empty: none.
	charts, image string
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release: "+err.Error())
		os.Exit(1)
	}
}

func run(args []string) error {
	r := release{}
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&r.source, "source", ".", "directory of the main package")
	flags.StringVar(&r.output, "output", "dist/release", "directory that is written; an earlier release there is replaced")
	flags.StringVar(&r.version, "version", "", "version, as 1.2.3 (required)")
	flags.StringVar(&r.revision, "revision", "", "commit that is built")
	flags.StringVar(&r.charts, "charts", "", "directory with the charts; empty: none is packed")
	flags.StringVar(&r.image, "image", "", "OCI layout of the container image; empty: none is packed")
	platforms := flags.String("platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "platforms, separated by commas")
	beside := flags.String("beside", "", "files and directories that go into each archive, separated by commas")
	created := flags.String("created", "", "time of the commit, in RFC 3339 (required)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if !regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`).MatchString(r.version) {
		return fmt.Errorf("-version is %q, must be a semantic version without a v, as 1.2.3", r.version)
	}
	var err error
	if r.created, err = time.Parse(time.RFC3339, *created); err != nil {
		return fmt.Errorf("-created: %w", err)
	}
	r.platforms = strings.Split(*platforms, ",")
	if *beside != "" {
		r.beside = strings.Split(*beside, ",")
	}
	return r.write()
}

func (r *release) write() error {
	if err := clearOutput(r.output); err != nil {
		return err
	}
	common, err := gather(r.beside)
	if err != nil {
		return fmt.Errorf("-beside: %w", err)
	}
	for _, p := range r.platforms {
		if err := r.program(p, common); err != nil {
			return err
		}
	}
	if err := r.packCharts(); err != nil {
		return fmt.Errorf("-charts: %w", err)
	}
	if r.image != "" {
		if err := r.packImage(); err != nil {
			return fmt.Errorf("-image: %w", err)
		}
	}
	return sum(r.output)
}

// clearOutput makes the output an empty directory. It removes nothing but an earlier release.
func clearOutput(output string) error {
	there, err := os.ReadDir(output)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	isRelease := slices.ContainsFunc(there, func(e fs.DirEntry) bool { return e.Name() == sums })
	if len(there) > 0 && !isRelease {
		return fmt.Errorf("-output: %s has files and is no release; name another directory", output)
	}
	if err := os.RemoveAll(output); err != nil {
		return err
	}
	return os.MkdirAll(output, 0o755)
}

// program writes the archive of one platform.
func (r *release) program(platform string, common files) error {
	system, arch, ok := strings.Cut(platform, "/")
	if !ok {
		return fmt.Errorf("-platforms: %q must read as linux/amd64", platform)
	}
	scratch, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	binary := filepath.Join(scratch, "dovetail")
	if err := r.build(binary, system, arch); err != nil {
		return err
	}
	text, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	all := append(slices.Clone(common), file{name: "dovetail", mode: 0o755, text: text})
	for _, l := range links {
		all = append(all, file{name: l, link: "dovetail"})
	}
	name := fmt.Sprintf("dovetail_%s_%s_%s", r.version, system, arch)
	return os.WriteFile(filepath.Join(r.output, name+".tar.gz"), squeeze(all.under(name).tar(r.created)), 0o644)
}

// build builds the program as tools/image does: static, and without a trace of where it was built.
func (r *release) build(binary, system, arch string) error {
	const cli = "github.com/dovetail-sh/dovetail/internal/cli"
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", binary,
		"-ldflags", "-s -w -buildid= -X "+cli+".version="+r.version+" -X "+cli+".revision="+r.revision, ".")
	cmd.Dir = r.source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+system, "GOARCH="+arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build for %s/%s: %w\n%s", system, arch, err, out)
	}
	return nil
}

// packCharts writes each chart as Helm reads it: an archive with a directory of the chart's name. Chart
// and image have the version of the release.
func (r *release) packCharts() error {
	if r.charts == "" {
		return nil
	}
	charts, err := filepath.Glob(filepath.Join(r.charts, "*", "Chart.yaml"))
	if err != nil {
		return err
	}
	if len(charts) == 0 {
		return fmt.Errorf("%s has no chart: no Chart.yaml in any directory of it", r.charts)
	}
	for _, chart := range charts {
		directory := filepath.Dir(chart)
		name := filepath.Base(directory)
		content, err := gather([]string{directory})
		if err != nil {
			return err
		}
		for i := range content {
			if content[i].name == name+"/Chart.yaml" {
				content[i].text = versioned(content[i].text, r.version)
			}
		}
		if err := os.WriteFile(filepath.Join(r.output, name+"-"+r.version+".tgz"), squeeze(content.tar(r.created)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// versioned returns a Chart.yaml with the version of the release.
func versioned(text []byte, version string) []byte {
	text = regexp.MustCompile(`(?m)^version:.*$`).ReplaceAll(text, []byte("version: "+version))
	return regexp.MustCompile(`(?m)^appVersion:.*$`).ReplaceAll(text, []byte(`appVersion: "`+version+`"`))
}

// packImage writes the image as one file, and the lists of its modules beside it.
func (r *release) packImage() error {
	all, err := gather([]string{r.image + "/."})
	if err != nil {
		return err
	}
	var layout files
	for _, f := range all {
		if !strings.HasSuffix(f.name, ".cdx.json") {
			layout = append(layout, f)
			continue
		}
		name := fmt.Sprintf("dovetail_%s_%s", r.version, strings.Replace(f.name, "sbom-", "", 1))
		if err := os.WriteFile(filepath.Join(r.output, strings.ReplaceAll(name, "linux-", "linux_")), f.text, 0o644); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(layout, func(f file) bool { return f.name == "oci-layout" }) {
		return fmt.Errorf("%s is no OCI layout; make image writes one", r.image)
	}
	return os.WriteFile(filepath.Join(r.output, "dovetail-image_"+r.version+".oci.tar"), layout.tar(r.created), 0o644)
}

// sum writes the checksums of all files of a directory, as sha256sum -c reads them, and prints them.
func sum(directory string) error {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return err
	}
	var b strings.Builder
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(directory, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(text), e.Name())
	}
	fmt.Print(b.String())
	return os.WriteFile(filepath.Join(directory, sums), []byte(b.String()), 0o644)
}
