// Package charttest renders the charts in deploy/charts as Helm does, without a cluster. Its tests hold
// what every value does: read testdata/values first.
package charttest

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	loader3 "helm.sh/helm/v3/pkg/chart/loader"
	chartutil3 "helm.sh/helm/v3/pkg/chartutil"
	engine3 "helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v4/pkg/chart"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Input is what a rendering depends on.
type Input struct {
	// Values are the user's, as Helm reads them.
	Values map[string]any
	// Release and Namespace name the release; empty: karpenter in kube-system.
	Release, Namespace string
	// Annotations are added to those of Chart.yaml.
	Annotations map[string]string
	// APIs are group versions that the cluster serves besides those of Kubernetes.
	APIs []string
	// Cluster answers lookups; nil: there is no cluster, as with helm template.
	Cluster engine.ClientProvider
}

// Output is what a chart makes of it.
type Output struct {
	Objects []*unstructured.Unstructured // sorted by key
	Notes   string
}

// kubernetes is the version of every cluster here.
const kubernetes = "v1.37.0"

func (in Input) options() common.ReleaseOptions {
	o := common.ReleaseOptions{Name: in.Release, Namespace: in.Namespace, Revision: 1, IsInstall: true}
	if o.Name == "" {
		o.Name = "karpenter"
	}
	if o.Namespace == "" {
		o.Namespace = "kube-system"
	}
	return o
}

// Render renders the chart in a directory with Helm 4.
func Render(dir string, in Input) (Output, error) {
	loaded, err := loader.Load(dir)
	if err != nil {
		return Output{}, err
	}
	c, ok := loaded.(*chartv2.Chart)
	if !ok {
		return Output{}, fmt.Errorf("%s is a chart of another version", dir)
	}
	if c.Metadata.Annotations == nil {
		c.Metadata.Annotations = map[string]string{}
	}
	maps.Copy(c.Metadata.Annotations, in.Annotations)
	version, err := common.ParseKubeVersion(kubernetes)
	if err != nil {
		return Output{}, err
	}
	caps := common.DefaultCapabilities.Copy()
	caps.KubeVersion, caps.APIVersions = *version, append(slices.Clone(caps.APIVersions), in.APIs...)
	values, err := util.ToRenderValues(c, in.Values, in.options(), caps)
	if err != nil {
		return Output{}, err
	}
	var files map[string]string
	if in.Cluster != nil {
		files, err = engine.RenderWithClientProvider(c, values, in.Cluster)
	} else {
		files, err = engine.Render(c, values)
	}
	if err != nil {
		return Output{}, err
	}
	return output(files)
}

// Render3 renders the chart in a directory with Helm 3, which looks nothing up.
func Render3(dir string, in Input) (Output, error) {
	c, err := loader3.Load(dir)
	if err != nil {
		return Output{}, err
	}
	caps := chartutil3.DefaultCapabilities.Copy()
	caps.KubeVersion = chartutil3.KubeVersion{Version: kubernetes, Major: "1", Minor: "37"}
	caps.APIVersions = append(slices.Clone(caps.APIVersions), in.APIs...)
	o := in.options()
	values, err := chartutil3.ToRenderValues(c, in.Values, chartutil3.ReleaseOptions{Name: o.Name, Namespace: o.Namespace, Revision: o.Revision, IsInstall: true}, caps)
	if err != nil {
		return Output{}, err
	}
	files, err := engine3.Render(c, values)
	if err != nil {
		return Output{}, err
	}
	return output(files)
}

// output reads rendered files.
func output(files map[string]string) (Output, error) {
	var out Output
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Base(name) == "NOTES.txt" {
			out.Notes = files[name]
			continue
		}
		for _, text := range strings.Split("\n"+files[name], "\n---") {
			o := &unstructured.Unstructured{}
			if err := yaml.UnmarshalStrict([]byte(text), &o.Object); err != nil {
				return Output{}, fmt.Errorf("%s: %w\n%s", name, err, text)
			}
			if len(o.Object) == 0 {
				continue
			}
			if o.GetKind() == "" || o.GetName() == "" {
				return Output{}, fmt.Errorf("%s: an object without kind or name:\n%s", name, text)
			}
			out.Objects = append(out.Objects, o)
		}
	}
	slices.SortFunc(out.Objects, func(a, b *unstructured.Unstructured) int { return strings.Compare(Key(a), Key(b)) })
	for i := 1; i < len(out.Objects); i++ {
		if Key(out.Objects[i]) == Key(out.Objects[i-1]) {
			return Output{}, errors.New("two objects " + Key(out.Objects[i]))
		}
	}
	return out, nil
}

// Key names an object within a rendering.
func Key(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return o.GetKind() + " " + o.GetName()
	}
	return fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName())
}

// Find returns the object of a key; nil: there is none.
func (out Output) Find(key string) *unstructured.Unstructured {
	for _, o := range out.Objects {
		if Key(o) == key {
			return o
		}
	}
	return nil
}

// Defaults returns the chart's own values.
func Defaults(dir string) (map[string]any, error) {
	c, err := loader.Load(dir)
	if err != nil {
		return nil, err
	}
	a, err := chart.NewAccessor(c)
	if err != nil {
		return nil, err
	}
	return a.Values(), nil
}
