package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	fieldOwner = client.FieldOwner("dovetail-demo")

	definitionPatience = 30 * time.Second
	definitionPoll     = 50 * time.Millisecond
	// yamlBuffer is how much of a file is read to know whether it is YAML or JSON.
	yamlBuffer = 4096
)

// Manifests returns the objects of the *.yaml files in the root of files, in the order of
// their names and then of their place in the file.
func Manifests(files fs.FS) ([]*unstructured.Unstructured, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
		documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), yamlBuffer)
		for {
			o := &unstructured.Unstructured{}
			err := documents.Decode(&o.Object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", name, err)
			}
			if len(o.Object) > 0 {
				objects = append(objects, o)
			}
		}
	}
	return objects, nil
}

// Apply creates the objects or changes them to what they say, and returns when those that
// are definitions are served.
func Apply(ctx context.Context, c client.Client, objects ...*unstructured.Unstructured) error {
	for _, o := range objects {
		// A copy, because the answer is written into what was sent.
		sent := client.ApplyConfigurationFromUnstructured(o.DeepCopy())
		if err := c.Apply(ctx, sent, fieldOwner, client.ForceOwnership); err != nil {
			return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	for _, o := range objects {
		if o.GetKind() != "CustomResourceDefinition" {
			continue
		}
		now := o.DeepCopy()
		err := wait.PollUntilContextTimeout(ctx, definitionPoll, definitionPatience, true, func(ctx context.Context) (bool, error) {
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), now); err != nil || !established(now) {
				return false, err
			}
			return isKnown(c.RESTMapper(), now)
		})
		if err != nil {
			return fmt.Errorf("wait until %s is served: %w", o.GetName(), err)
		}
	}
	return nil
}

// isKnown reports whether discovery names the kind of a definition in all versions that are
// served: it may be behind. Each version is asked for by its name, since the mapper keeps the
// versions that it saw first for as long as it is not.
func isKnown(mapper meta.RESTMapper, definition *unstructured.Unstructured) (bool, error) {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, v := range versions {
		version, ok := v.(map[string]any)
		if !ok || version["served"] != true {
			continue
		}
		name, _ := version["name"].(string)
		_, err := mapper.RESTMapping(schema.GroupKind{Group: group, Kind: kind}, name)
		if meta.IsNoMatchError(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

func established(definition *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Established" && c["status"] == "True" {
			return true
		}
	}
	return false
}
