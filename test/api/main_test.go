package api

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"sync"
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

// shared is the control plane that the tests of the package share. The first that asks for it
// by server starts it.
var shared struct {
	sync.Once
	config *rest.Config
	remove func()
	err    error
}

func TestMain(m *testing.M) {
	status := m.Run()
	if shared.remove != nil {
		shared.remove()
	}
	os.Exit(status)
}

// server returns how to reach the shared API server, which knows our CRDs. Tests only read it,
// create objects under names of their own, or dry-run. The test is skipped where a control
// plane cannot be had.
func server(t *testing.T) *rest.Config {
	t.Helper()
	binary := testkit.Binary(t, "devcluster")
	shared.Do(func() {
		var cluster *testkit.Cluster
		if cluster, shared.remove, shared.err = testkit.StartSharedCluster(binary); shared.err == nil {
			shared.config, shared.err = cluster.Config, install(cluster.Config)
		}
	})
	if shared.err != nil {
		t.Fatal("start the API server: ", shared.err)
	}
	return shared.config
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
