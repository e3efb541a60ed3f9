package doctor

import (
	"fmt"
	"io/fs"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/config/crd"
)

// ownDefinitions returns the definitions that this program has.
func ownDefinitions() ([]*unstructured.Unstructured, error) {
	names, err := fs.Glob(crd.Files(), "*.yaml")
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for _, name := range names {
		text, err := crd.Files().ReadFile(name)
		if err != nil {
			return nil, err
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &o.Object); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		out = append(out, o)
	}
	return out, nil
}
