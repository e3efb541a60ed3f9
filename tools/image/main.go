// Command image writes the container image of dovetail, without a container engine: an OCI layout with
// a manifest for each platform, the list of its modules (CycloneDX) beside it and, with a key, a
// signature that cosign verifies. The same commit gives the same bytes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// order is what is to be made.
type order struct {
	// source is the directory of the main package, output where everything is written.
	source, output string
	platforms      []v1.Platform
	// name is the image's, which the signature is about; version and revision are written on it.
	name, version, revision string
	created                 time.Time
	// key is the file of the private key to sign with; empty: nothing is signed.
	key string
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image: "+err.Error())
		os.Exit(1)
	}
}

func run(args []string) error {
	o := order{}
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.StringVar(&o.source, "source", ".", "directory of the main package")
	flags.StringVar(&o.output, "output", "dist/image", "directory that is written; an earlier image there is replaced")
	flags.StringVar(&o.name, "name", "dovetail", "name of the image that is signed, with its registry and without a tag")
	flags.StringVar(&o.version, "version", "", "version of the image (required)")
	flags.StringVar(&o.revision, "revision", "", "commit that is built")
	flags.StringVar(&o.key, "key", "", "file with a private ECDSA key in PEM (PKCS #8) to sign with; empty: the image is not signed")
	platforms := flags.String("platforms", "linux/amd64,linux/arm64", "platforms, separated by commas")
	created := flags.String("created", "", "time of the commit, in RFC 3339 (required)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.version == "" || *created == "" {
		return errors.New("-version and -created must be set")
	}
	var err error
	if o.created, err = time.Parse(time.RFC3339, *created); err != nil {
		return fmt.Errorf("-created: %w", err)
	}
	for _, text := range strings.Split(*platforms, ",") {
		p, err := v1.ParsePlatform(text)
		if err != nil {
			return fmt.Errorf("-platforms: %w", err)
		}
		o.platforms = append(o.platforms, *p)
	}
	digest, err := o.write()
	if err != nil {
		return err
	}
	fmt.Printf("%s %s\n", digest, o.output)
	return nil
}

// clear makes the output an empty directory. It removes nothing but an earlier image.
func (o *order) clear() error {
	there, err := os.ReadDir(o.output)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	isImage := slices.ContainsFunc(there, func(e fs.DirEntry) bool { return e.Name() == "oci-layout" })
	if len(there) > 0 && !isImage {
		return fmt.Errorf("-output: %s has files and is no OCI layout; name another directory", o.output)
	}
	if err := os.RemoveAll(o.output); err != nil {
		return err
	}
	return os.MkdirAll(o.output, 0o755)
}

// write makes the image, and returns its digest.
func (o *order) write() (v1.Hash, error) {
	scratch, err := os.MkdirTemp("", "image")
	if err != nil {
		return v1.Hash{}, err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	if err := o.clear(); err != nil {
		return v1.Hash{}, err
	}
	path, err := layout.Write(o.output, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	for _, p := range o.platforms {
		binary := filepath.Join(scratch, p.OS+"-"+p.Architecture)
		if err := o.build(binary, p); err != nil {
			return v1.Hash{}, err
		}
		img, err := o.image(binary, p)
		if err != nil {
			return v1.Hash{}, fmt.Errorf("image for %s: %w", p, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &p}})
		file := filepath.Join(o.output, fmt.Sprintf("sbom-%s-%s.cdx.json", p.OS, p.Architecture))
		if err := o.writeModules(binary, file); err != nil {
			return v1.Hash{}, fmt.Errorf("modules for %s: %w", p, err)
		}
	}
	digest, err := index.Digest()
	if err != nil {
		return v1.Hash{}, err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": o.version})); err != nil {
		return v1.Hash{}, err
	}
	if o.key == "" {
		return digest, nil
	}
	signature, err := o.sign(digest)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("sign: %w", err)
	}
	tag := digest.Algorithm + "-" + digest.Hex + ".sig"
	return digest, path.AppendImage(signature, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag}))
}
