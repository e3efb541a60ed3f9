package kubelets

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/config"
)

//go:embed stages/*.yaml
var ownStages embed.FS

const stageBytesMax = 1 << 20

// stages are KWOK stages by kind and name: one put later replaces one of the same name.
type stages map[string]*internalversion.Stage

// loadStages returns KWOK's fast set, overlaid with our own stages, overlaid with those of
// a directory, unless that is empty.
func loadStages(dir string) (map[internalversion.StageResourceRef][]*internalversion.Stage, error) {
	s := stages{}
	for _, doc := range []string{nodefast.DefaultNodeInit, podfast.DefaultPodReady, podfast.DefaultPodComplete, podfast.DefaultPodDelete} {
		if err := s.put([]byte(doc)); err != nil {
			return nil, fmt.Errorf("stages of KWOK: %w", err)
		}
	}
	if err := s.putFiles(ownStages, "stages/*.yaml"); err != nil {
		return nil, fmt.Errorf("stages of devcluster: %w", err)
	}
	if dir != "" {
		if err := s.putFiles(os.DirFS(dir), "*.yaml"); err != nil {
			return nil, fmt.Errorf("stages in %s: %w", dir, err)
		}
	}
	byKind := map[internalversion.StageResourceRef][]*internalversion.Stage{}
	for _, key := range slices.Sorted(maps.Keys(s)) {
		ref := s[key].Spec.ResourceRef
		byKind[ref] = append(byKind[ref], s[key])
	}
	return byKind, nil
}

func (s stages) putFiles(files fs.FS, pattern string) error {
	names, err := fs.Glob(files, pattern)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return errors.New("no *.yaml there")
	}
	for _, name := range names {
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if err := s.putAll(content); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// putAll puts every document of a YAML stream.
func (s stages) putAll(stream []byte) error {
	docs := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(stream)))
	buf := make([]byte, stageBytesMax)
	for {
		n, err := docs.Read(buf)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(buf[:n])) == 0 {
			continue
		}
		if err := s.put(buf[:n]); err != nil {
			return err
		}
	}
}

func (s stages) put(doc []byte) error {
	stage, err := config.UnmarshalWithType[*internalversion.Stage](doc)
	if err != nil {
		return err
	}
	if stage.Name == "" || stage.Spec.ResourceRef.Kind == "" {
		return errors.New("a Stage needs metadata.name and spec.resourceRef.kind")
	}
	s[stage.Spec.ResourceRef.Kind+"/"+stage.Name] = stage
	return nil
}
