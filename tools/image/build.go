package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"os/exec"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// Where things are in the image.
const (
	entrypoint   = "/usr/bin/dovetail"
	certificates = "/etc/ssl/certs/ca-certificates.crt"
	// user is one without rights; the number is that which Kubernetes can see is not root.
	user = "65532:65532"
)

// build builds the binary for a platform: static, and without a trace of where it was built.
func (o *order) build(binary string, p v1.Platform) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", binary,
		"-ldflags", "-s -w -buildid= -X github.com/dovetail-sh/dovetail/internal/cli.version="+o.version+" -X github.com/dovetail-sh/dovetail/internal/cli.revision="+o.revision, ".")
	cmd.Dir = o.source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+p.OS, "GOARCH="+p.Architecture)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build for %s: %w\n%s", p, err, out)
	}
	return nil
}

// image returns the image for a platform: the certificates by which servers are trusted, and the binary.
func (o *order) image(binary string, p v1.Platform) (v1.Image, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, add := range []struct {
		what string
		files
	}{
		{"certificates of Mozilla's program", files{{certificates, 0o444, roots()}}},
		{"dovetail", files{{entrypoint, 0o555, program}}},
	} {
		text := add.tar()
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, err
		}
		history := v1.History{Created: v1.Time{Time: o.created}, CreatedBy: add.what}
		if img, err = mutate.Append(img, mutate.Addendum{Layer: layer, History: history, MediaType: types.OCILayer}); err != nil {
			return nil, err
		}
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant, config.Created = p.OS, p.Architecture, p.Variant, v1.Time{Time: o.created}
	config.Config = v1.Config{
		User: user, Entrypoint: []string{entrypoint}, WorkingDir: "/",
		Env:    []string{"PATH=/usr/bin", "SSL_CERT_FILE=" + certificates},
		Labels: o.labels(),
	}
	return mutate.ConfigFile(img, config)
}

func (o *order) labels() map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title": "dovetail", "org.opencontainers.image.version": o.version,
		"org.opencontainers.image.created": o.created.UTC().Format("2006-01-02T15:04:05Z"),
	}
	if o.revision != "" {
		labels["org.opencontainers.image.revision"] = o.revision
	}
	return labels
}

// files are what a layer has, in order.
type files []struct {
	path string
	mode int64
	text []byte
}

// tar returns the files as an archive that is always the same.
func (f files) tar() []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, file := range f {
		header := &tar.Header{Name: file.path[1:], Mode: file.mode, Size: int64(len(file.text)), Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if err := w.WriteHeader(header); err != nil {
			panic(err) // the buffer takes everything
		}
		if _, err := w.Write(file.text); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// roots returns the certificates as programs read them.
func roots() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil { // PEM cannot say what constrains it
			b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return b.Bytes()
}
