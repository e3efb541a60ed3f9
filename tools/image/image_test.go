package main

import (
	"archive/tar"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// newOrder orders an image of the program in testdata, for the platform of the test and another one.
func newOrder(t *testing.T) order {
	t.Helper()
	other := map[string]string{"amd64": "arm64"}[runtime.GOARCH]
	if other == "" {
		other = "amd64"
	}
	return order{
		source: "testdata/program", output: filepath.Join(t.TempDir(), "image"), name: "registry.test/dovetail", version: "1.2.3", revision: "abcdef0123",
		created:   time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC),
		platforms: []v1.Platform{{OS: "linux", Architecture: runtime.GOARCH}, {OS: "linux", Architecture: other}},
	}
}

func write(t *testing.T, o *order) v1.Hash {
	t.Helper()
	digest, err := o.write()
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// TestTheSameCommitGivesTheSameImage builds in two directories.
func TestTheSameCommitGivesTheSameImage(t *testing.T) {
	t.Parallel()
	first, second := newOrder(t), newOrder(t)
	copied := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.CopyFS(copied, os.DirFS(first.source)); err != nil {
		t.Fatal(err)
	}
	second.source = copied
	if a, b := write(t, &first), write(t, &second); a != b {
		t.Errorf("two builds gave %s and %s", a, b)
	}
	for _, name := range []string{"index.json", "sbom-linux-" + runtime.GOARCH + ".cdx.json"} {
		a, err1 := os.ReadFile(filepath.Join(first.output, name))
		b, err2 := os.ReadFile(filepath.Join(second.output, name))
		if err := errors.Join(err1, err2); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs: %v", name, err)
		}
	}
	third := newOrder(t)
	third.version = "1.2.4"
	if a, b := write(t, &first), write(t, &third); a == b {
		t.Error("another version gave the same image")
	}
}

// TestWhatIsInTheImage unpacks the image for this platform and runs its program.
func TestWhatIsInTheImage(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the image is for Linux")
	}
	o := newOrder(t)
	img := imageOf(t, &o, write(t, &o))
	if err := validate.Image(img); err != nil {
		t.Error(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" || config.OS != "linux" || config.Architecture != runtime.GOARCH || !config.Created.Equal(o.created) || len(config.History) != 2 {
		t.Errorf("config is %+v", config)
	}
	root := t.TempDir()
	unpack(t, img, root)
	out, err := exec.Command(filepath.Join(root, config.Config.Entrypoint[0]), "version").CombinedOutput()
	if err != nil || string(out) != "program version\n" {
		t.Errorf("the program says %q, %v", out, err)
	}
	pemText, err := os.ReadFile(filepath.Join(root, certificates))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pemText) || strings.Count(string(pemText), "BEGIN CERTIFICATE") < 100 {
		t.Error("there are no certificates")
	}
}

// imageOf returns the image of the layout for this platform.
func imageOf(t *testing.T, o *order, digest v1.Hash) v1.Image {
	t.Helper()
	whole, err := layout.ImageIndexFromPath(o.output)
	if err != nil {
		t.Fatal(err)
	}
	index, err := whole.ImageIndex(digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != len(o.platforms) {
		t.Errorf("there are %d images, want %d", len(manifest.Manifests), len(o.platforms))
	}
	for _, d := range manifest.Manifests {
		if d.Platform.Architecture == runtime.GOARCH {
			img, err := index.Image(d.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return img
		}
	}
	t.Fatal("there is no image for this platform")
	return nil
}

func unpack(t *testing.T, img v1.Image, root string) {
	t.Helper()
	flat := mutate.Extract(img)
	defer func() { _ = flat.Close() }()
	r := tar.NewReader(flat)
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(root, header.Name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, os.FileMode(header.Mode))); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTheListOfModulesIsThatOfTheBinary compares it with what the binary itself says.
func TestTheListOfModulesIsThatOfTheBinary(t *testing.T) {
	t.Parallel()
	o := newOrder(t)
	o.source = "."
	write(t, &o)
	binary := filepath.Join(t.TempDir(), "program")
	if err := o.build(binary, o.platforms[0]); err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}
	for _, m := range info.Deps {
		want = append(want, "pkg:golang/"+m.Path+"@"+m.Version)
	}
	var sbom struct {
		BOMFormat  string
		Components []struct{ Purl string }
	}
	text, err := os.ReadFile(filepath.Join(o.output, "sbom-linux-"+runtime.GOARCH+".cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &sbom); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range sbom.Components {
		got = append(got, c.Purl)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) || sbom.BOMFormat != "CycloneDX" || len(want) < 3 {
		t.Errorf("the list has %v, want %v", got, want)
	}
}

// TestASignature is that of the digest, by the key, in the place where cosign looks for it.
func TestASignature(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	o := newOrder(t)
	o.key = filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(o.key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	digest := write(t, &o)
	whole, err := layout.ImageIndexFromPath(o.output)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := whole.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range manifest.Manifests {
		if d.Annotations["org.opencontainers.image.ref.name"] != "sha256-"+digest.Hex+".sig" {
			continue
		}
		img, err := whole.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkSignature(t, img, digest, &key.PublicKey)
		return
	}
	t.Error("there is no signature")
}

func checkSignature(t *testing.T, img v1.Image, digest v1.Hash, key *ecdsa.PublicKey) {
	t.Helper()
	manifest, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	r, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := base64.StdEncoding.DecodeString(manifest.Layers[0].Annotations[signatureAnnotation])
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(text); !ecdsa.VerifyASN1(key, sum[:], signature) {
		t.Error("the signature does not verify")
	}
	var s statement
	if err := json.Unmarshal(text, &s); err != nil || s.Critical.Image.Digest != digest.String() || s.Critical.Identity.Name != "registry.test/dovetail" {
		t.Errorf("signed is %s, %v", text, err)
	}
}

// TestMistakesAreNamed: what is wrong with the call is said in one line.
func TestMistakesAreNamed(t *testing.T) {
	t.Parallel()
	notAKey := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(notAKey, []byte("key"), 0o600); err != nil {
		t.Fatal(err)
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "precious"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"-version 1 -created 2026-11-25T12:00:00Z -output " + full: "has files and is no OCI layout",
		"":                              "-version and -created must be set",
		"-version 1 -created yesterday": "-created",
		"-version 1 -created 2026-11-25T12:00:00Z -platforms linux/amd64/v1/v2":                                                                                 "-platforms",
		"-version 1 -created 2026-11-25T12:00:00Z -source testdata/none -output " + t.TempDir():                                                                 "build for linux/amd64",
		"-version 1 -created 2026-11-25T12:00:00Z -source testdata/program -platforms linux/" + runtime.GOARCH + " -key " + notAKey + " -output " + t.TempDir(): "has no private key in PEM",
	} {
		if err := run(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("image %s: %v, want %q", args, err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(full, "precious")); err != nil {
		t.Error(err)
	}
}
