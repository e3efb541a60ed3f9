package demo

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// slow is a client of an API server that has established every definition, while its discovery is behind.
type slow struct {
	client.Client
	mapper meta.RESTMapper
}

func (*slow) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return nil
}

func (*slow) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	return unstructured.SetNestedSlice(o.(*unstructured.Unstructured).Object, []any{map[string]any{"type": "Established", "status": "True"}}, "status", "conditions")
}

func (s *slow) RESTMapper() meta.RESTMapper { return s.mapper }

// slowDiscovery answers what an API server says of group g.test. Thing is of version v1alpha1,
// which is named only when the version was asked for the third time.
func slowDiscovery(t *testing.T, asked *atomic.Int32) meta.RESTMapper {
	t.Helper()
	version := func(v string) metav1.GroupVersionForDiscovery {
		return metav1.GroupVersionForDiscovery{GroupVersion: "g.test/" + v, Version: v}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any
		switch strings.TrimSuffix(r.URL.Path, "/") {
		case "/api":
			answer = metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}}
		case "/apis":
			answer = metav1.APIGroupList{
				TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"},
				Groups:   []metav1.APIGroup{{Name: "g.test", Versions: []metav1.GroupVersionForDiscovery{version("v1")}, PreferredVersion: version("v1")}},
			}
		case "/apis/g.test/v1":
			answer = resources("g.test/v1", "Other", "others")
		case "/apis/g.test/v1alpha1":
			if asked.Add(1) >= 3 {
				answer = resources("g.test/v1alpha1", "Thing", "things")
			}
		}
		if answer == nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	mapper, err := apiutil.NewDynamicRESTMapper(&rest.Config{Host: server.URL}, server.Client())
	if err != nil {
		t.Fatal(err)
	}
	return mapper
}

func resources(groupVersion, kind, name string) metav1.APIResourceList {
	return metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: groupVersion,
		APIResources: []metav1.APIResource{{Name: name, Kind: kind, Verbs: metav1.Verbs{"get"}}},
	}
}

// TestApplyWaitsForDiscovery: what is applied next may be of the kind that was just defined.
// The mapper may have met the group before, when that had no such version.
func TestApplyWaitsForDiscovery(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	c := &slow{mapper: slowDiscovery(t, &asked)}
	err := Apply(t.Context(), c, definition("Other", "v1"), definition("Thing", "v1alpha1"))
	if err != nil {
		t.Fatal(err)
	}
	if asked.Load() != 3 {
		t.Errorf("the version was asked for %d times, want 3", asked.Load())
	}
}

func definition(kind, version string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"kind": "CustomResourceDefinition",
		"spec": map[string]any{
			"group": "g.test", "names": map[string]any{"kind": kind},
			"versions": []any{map[string]any{"name": version, "served": true}},
		},
	}}
}
