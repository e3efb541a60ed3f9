package api

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/config/crd"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// config reaches the API server that the tests of the package share. They only
// read it, create objects under names of their own, or dry-run.
var config *rest.Config

func TestMain(m *testing.M) {
	cluster, remove, err := testkit.StartClusterMain()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	config = cluster.Config
	status := 1
	if err := install(config); err != nil {
		fmt.Fprintln(os.Stderr, "install CRDs:", err)
	} else {
		status = m.Run()
	}
	remove()
	os.Exit(status)
}

// crds returns the CRDs by file name.
func crds() (map[string]*unstructured.Unstructured, error) {
	out := map[string]*unstructured.Unstructured{}
	names, err := fs.Glob(crd.Files(), "*.yaml")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := crd.Files().ReadFile(name)
		if err != nil {
			return nil, err
		}
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &u.Object); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = u
	}
	return out, nil
}

// install creates the CRDs and returns when they are served.
func install(config *rest.Config) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	all, err := crds()
	if err != nil {
		return err
	}
	for _, u := range all {
		if _, err := definitions.Create(ctx, u, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for _, u := range all {
		for {
			now, err := definitions.Get(ctx, u.GetName(), metav1.GetOptions{})
			if err != nil {
				return err
			}
			if established(now) {
				break
			}
			<-tick.C
		}
	}
	return nil
}

func established(u *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Established" && c["status"] == "True" {
			return true
		}
	}
	return false
}
