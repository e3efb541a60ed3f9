package whatif

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/convert"
)

// fileBytesMax bounds a file of NodePools.
const fileBytesMax = 16 << 20

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// ReadPools reads the NodePools of YAML or JSON files, with the defaults that the API server would fill in. Notes
// say which other objects were not read. The error names file, document and field.
func ReadPools(paths []string) (pools []*karpenterv1.NodePool, notes []string, err error) {
	others := map[string]bool{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, err
		}
		if len(text) > fileBytesMax {
			return nil, nil, fmt.Errorf("%s is larger than %d MiB", path, fileBytesMax>>20)
		}
		found, err := readDocuments(path, text, others)
		if err != nil {
			return nil, nil, err
		}
		pools = append(pools, found...)
	}
	if len(pools) == 0 {
		return nil, nil, fmt.Errorf("%v: there is no NodePool in it", paths)
	}
	return pools, notesOf(others), nil
}

// ParsePools is ReadPools for a text; name says in errors where it is from.
func ParsePools(name, text string) (pools []*karpenterv1.NodePool, notes []string, err error) {
	others := map[string]bool{}
	if pools, err = readDocuments(name, []byte(text), others); err == nil && len(pools) == 0 {
		err = fmt.Errorf("%s: there is no NodePool in it", name)
	}
	return pools, notesOf(others), err
}

func notesOf(others map[string]bool) (notes []string) {
	for _, what := range sortedKeys(others) {
		notes = append(notes, "not compared: "+what+" (only NodePools are)")
	}
	return notes
}

// readDocuments returns the NodePools of a file.
func readDocuments(path string, text []byte, others map[string]bool) (pools []*karpenterv1.NodePool, err error) {
	docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for n := 1; ; n++ {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return pools, nil
		}
		var found []*karpenterv1.NodePool
		if err == nil {
			found, err = readDocument(doc, others)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", path, n, err)
		}
		pools = append(pools, found...)
	}
}

// readDocument returns the NodePools of one document, which may be a list.
func readDocument(doc []byte, others map[string]bool) (pools []*karpenterv1.NodePool, err error) {
	var tree map[string]any
	if err := yaml.Unmarshal(doc, &tree); err != nil {
		return nil, err
	}
	if items, is := tree["items"].([]any); is {
		for i, item := range items {
			b, err := json.Marshal(item)
			if err != nil {
				return nil, err
			}
			found, err := readDocument(b, others)
			if err != nil {
				return nil, fmt.Errorf("item %d: %w", i, err)
			}
			pools = append(pools, found...)
		}
		return pools, nil
	}
	version, _ := tree["apiVersion"].(string)
	kind, _ := tree["kind"].(string)
	metadata, _ := tree["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	switch {
	case tree == nil:
		return nil, nil
	case kind == "NodePool" && version == karpenterv1.GroupVersion.String():
		np, err := poolOf(tree)
		if err != nil {
			return nil, fmt.Errorf("NodePool %s: %w", name, err)
		}
		return []*karpenterv1.NodePool{np}, nil
	case convert.IsOlder(version):
		return nil, fmt.Errorf("%s of %s is an older version: dovetail convert writes it as v1", kind, version)
	case kind == "":
		return nil, errors.New("has no apiVersion and kind")
	default:
		others[kind+" "+name] = true
		return nil, nil
	}
}

// poolOf reads a NodePool, with defaults.
func poolOf(tree map[string]any) (*karpenterv1.NodePool, error) {
	fill(tree)
	b, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	np := &karpenterv1.NodePool{}
	if err := yaml.UnmarshalStrict(b, np); err != nil {
		return nil, err
	}
	if np.Name == "" {
		return nil, errors.New("metadata.name is missing")
	}
	kind, _ := convert.ClassKind("aws")
	np.Spec.Template.Spec.NodeClassRef = convert.Complete(np.Spec.Template.Spec.NodeClassRef, kind)
	return np, nil
}

// fill fills in the defaults of the API: those of config/crd (a test compares them).
func fill(tree map[string]any) {
	object := func(in map[string]any, key string) map[string]any {
		o, is := in[key].(map[string]any)
		if !is && in[key] == nil {
			o = map[string]any{}
			in[key] = o
		}
		return o
	}
	unset := func(in map[string]any, key string, value any) {
		if in != nil && in[key] == nil {
			in[key] = value
		}
	}
	spec := object(tree, "spec")
	if spec == nil {
		return
	}
	disruption := object(spec, "disruption")
	unset(disruption, "consolidateAfter", "0s")
	unset(disruption, "consolidationPolicy", string(karpenterv1.ConsolidationPolicyWhenEmptyOrUnderutilized))
	unset(disruption, "budgets", []any{map[string]any{}})
	if budgets, is := disruption["budgets"].([]any); is {
		for _, b := range budgets {
			if budget, is := b.(map[string]any); is {
				unset(budget, "nodes", "10%")
			}
		}
	}
	if template := object(spec, "template"); template != nil {
		unset(object(template, "spec"), "expireAfter", "720h")
	}
}
