package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/decision/simulate"
	"github.com/dovetail-sh/dovetail/internal/operator"
)

const (
	clusterAPIGroup   = "cluster.x-k8s.io"
	clusterAPIVersion = "v1beta2" // of files that have no object of the group

	// setPrice says what to do where a price is not known.
	setPrice = "set the annotation cluster.x-k8s.io/machine-current-price of the MachineDeployment, or give --cluster-api-prices-file"
)

// clusterAPIInput is the management cluster whose MachineDeployments count for ClusterAPINodeClasses.
type clusterAPIInput struct{ settings operator.Settings }

func (in *clusterAPIInput) addFlags(fs *pflag.FlagSet) {
	in.settings.AddClusterAPIFlags(fs)
	fs.Lookup("cluster-api-kubeconfig").Usage = "clusterapi: kubeconfig of the management cluster, for a cluster or for files; empty: --cluster-api-url, or if that is empty, too, the objects of the files, or the cluster itself"
}

// givenOf returns the name of a flag of these that is on the command line; empty: none is.
func (in *clusterAPIInput) givenOf(given *pflag.FlagSet) (name string) {
	given.Visit(func(f *pflag.Flag) {
		if strings.HasPrefix(f.Name, "cluster-api-") {
			name = f.Name
		}
	})
	return name
}

// isNamed reports whether the flags name a management cluster.
func (in *clusterAPIInput) isNamed() bool {
	return in.settings.ClusterAPIKubeconfig != "" || in.settings.ClusterAPIURL != ""
}

// validate returns what is wrong with the flags; given are those on the command line, and source is what the instance types come
// from instead; empty: these flags count.
func (in *clusterAPIInput) validate(given *pflag.FlagSet, source string) error {
	if name := in.givenOf(given); name != "" && source != "" {
		return fmt.Errorf("--%s has no effect with %s, which says what the instance types are", name, source)
	}
	if len(in.settings.Warnings) > 0 {
		return errors.New(strings.Join(in.settings.Warnings, "; "))
	}
	return in.settings.ValidateClusterAPI(true)
}

// capiSource is what the instance types of ClusterAPINodeClasses are read from.
type capiSource struct {
	provider *clusterapi.Provider
	classes  client.Reader
	// files is the management cluster if it is files.
	files *capiFiles
}

// open returns where node classes and the management cluster are: node classes are in the files, or if there are none, in the
// cluster that a kubeconfig leads to.
func (in *clusterAPIInput) open(kubeconfig string, files []string) (*capiSource, error) {
	s, settings := &capiSource{}, &in.settings
	config, err := settings.Management()
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		own, err := restConfig(kubeconfig)
		if err != nil {
			return nil, err
		}
		if s.classes, err = client.New(own, client.Options{Scheme: operator.Scheme()}); err != nil {
			return nil, fmt.Errorf("reach the cluster at %s: %w", own.Host, err)
		}
		if config == nil {
			config = own
		}
	} else {
		others, err := simulate.Others(files)
		if err == nil {
			s.files, err = newCAPIFiles(others)
		}
		if err != nil {
			return nil, err
		}
		s.classes = s.files
	}
	opts := clusterapi.Options{Management: s.files, Namespace: settings.ClusterAPINamespace, PricesFile: settings.ClusterAPIPricesFile, Reader: s.classes, Now: time.Now}
	if config != nil {
		s.files = nil
		if opts.Management, err = client.NewWithWatch(config, client.Options{}); err != nil {
			return nil, fmt.Errorf("reach the management cluster at %s: %w", config.Host, err)
		}
	}
	if s.provider, err = clusterapi.New(nil, opts); err != nil {
		return nil, fmt.Errorf("--cluster-api-prices-file: %w", err) // nothing else can be wrong
	}
	return s, nil
}

// classes returns what asks what ClusterAPINodeClasses offer (open has the parameters). Nothing is read before a NodePool has
// one.
func (in *clusterAPIInput) classes(ctx context.Context, kubeconfig string, files []string) *providerTypes {
	open := sync.OnceValues(func() (*capiSource, error) { return in.open(kubeconfig, files) })
	p := &providerTypes{kinds: map[schema.GroupKind]bool{{Group: clusterapiv1alpha1.Group, Kind: clusterapiv1alpha1.Kind}: true}, vocabulary: (*clusterapi.Provider)(nil).Vocabulary()}
	p.ask = func(ref cloud.ClassRef) ([]*catalog.Type, error) {
		s, err := open()
		if err != nil {
			return nil, err
		}
		if s.files != nil {
			p.reads = s.files.reads
		}
		types, notes, err := s.types(ctx, ref)
		p.notes = append(p.notes, notes...)
		return types, err
	}
	return p
}

// groups returns the node groups that are MachineDeployments among the Nodes of objects without a NodeClaim; nil: there is no
// Cluster API where it was looked for. Types that the node classes of NodePools describe count.
func (in *clusterAPIInput) groups(ctx context.Context, kubeconfig string, files []string, objects []client.Object) (*clusterapi.Groups, error) {
	s, err := in.open(kubeconfig, files)
	if err != nil {
		return nil, err
	}
	var nodes []*corev1.Node
	claimed := map[string]bool{}
	seen := map[string]bool{}
	var types []clusterapiv1alpha1.InstanceType
	for _, o := range objects {
		switch o := o.(type) {
		case *karpenterv1.NodeClaim:
			claimed[o.Status.ProviderID] = true
		case *karpenterv1.NodePool:
			ref := o.Spec.Template.Spec.NodeClassRef
			if ref == nil || ref.Group != clusterapiv1alpha1.Group || seen[ref.Name] {
				continue
			}
			seen[ref.Name] = true
			class := &clusterapiv1alpha1.ClusterAPINodeClass{}
			if err := s.classes.Get(ctx, client.ObjectKey{Name: ref.Name}, class); client.IgnoreNotFound(err) != nil {
				return nil, fmt.Errorf("get node class %s: %w", ref.Name, err)
			}
			types = append(types, class.Spec.Types...)
		}
	}
	for _, o := range objects {
		if n, is := o.(*corev1.Node); is && !claimed[n.Spec.ProviderID] {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) == 0 {
		return &clusterapi.Groups{}, nil
	}
	g, err := clusterapi.ReadGroups(ctx, s.provider, nodes, types)
	if clusterapi.IsUnserved(err) && !in.isNamed() {
		return nil, nil
	}
	return g, err
}

// types returns what a class offers, and what is to be said of it.
func (s *capiSource) types(ctx context.Context, ref cloud.ClassRef) (types []*catalog.Type, notes []string, err error) {
	class := &clusterapiv1alpha1.ClusterAPINodeClass{}
	if err := s.classes.Get(ctx, client.ObjectKey{Name: ref.Name}, class); err != nil {
		if _, isFile := s.classes.(*capiFiles); isFile && apierrors.IsNotFound(err) {
			return nil, nil, fmt.Errorf("get node class %s: it is not in the files: add it, and Cluster API's objects or --cluster-api-kubeconfig", ref)
		}
		return nil, nil, fmt.Errorf("get node class %s: %w", ref, err)
	}
	examined, err := clusterapi.Examine(ctx, s.provider, class)
	if err != nil {
		return nil, nil, fmt.Errorf("node class %s: %w", ref, err)
	}
	if examined.Unusable != "" {
		return nil, nil, fmt.Errorf("node class %s: %s", ref, examined.Unusable)
	}
	for _, note := range examined.Notes {
		notes = append(notes, fmt.Sprintf("node class %s: %s", ref, note))
	}
	if len(examined.Unpriced) > 0 {
		notes = append(notes, fmt.Sprintf("node class %s: the price is unknown of nodes from %s: %s", ref, strings.Join(examined.Unpriced, ", "), setPrice))
	}
	if s.files != nil && len(s.files.lacking) > 0 {
		notes = append(notes, fmt.Sprintf("node class %s: Cluster %s is not among the manifests, so that its failure domains are not known", ref, strings.Join(slices.Sorted(maps.Keys(s.files.lacking)), ", ")))
		clear(s.files.lacking)
	}
	return examined.Types, notes, nil
}

// capiFiles is a management cluster that is the objects of files. A Cluster that is not among them counts as there.
type capiFiles struct {
	objectFiles
	mapper *meta.DefaultRESTMapper
	// lacking are the Clusters that were asked for and are not among them.
	lacking map[string]bool
}

// isOfClusterAPI reports whether a group is that of Cluster API or of a provider of it.
func isOfClusterAPI(group string) bool {
	return group != clusterapiv1alpha1.Group && (group == clusterAPIGroup || strings.HasSuffix(group, "."+clusterAPIGroup))
}

// newCAPIFiles returns the management cluster of the objects. The kinds of Cluster API may have one version each.
func newCAPIFiles(objects []*unstructured.Unstructured) (*capiFiles, error) {
	f := &capiFiles{objectFiles: objectFiles{objects: objects}, lacking: map[string]bool{}}
	first := map[schema.GroupKind]*unstructured.Unstructured{}
	version := clusterAPIVersion
	for _, o := range objects {
		kind := o.GroupVersionKind()
		if !isOfClusterAPI(kind.Group) {
			continue
		}
		o.SetNamespace(cmp.Or(o.GetNamespace(), metav1.NamespaceDefault))
		if other := first[kind.GroupKind()]; other != nil && other.GroupVersionKind() != kind {
			return nil, fmt.Errorf("%s %s/%s is of %s, and %s %s/%s of %s: write both in one version",
				kind.Kind, o.GetNamespace(), o.GetName(), kind.GroupVersion(), kind.Kind, other.GetNamespace(), other.GetName(), other.GroupVersionKind().GroupVersion())
		}
		first[kind.GroupKind()] = o
		if kind.Group == clusterAPIGroup {
			version = kind.Version
		}
	}
	var versions []schema.GroupVersion
	kinds := map[schema.GroupVersionKind]bool{}
	for _, kind := range []string{"Cluster", "MachineDeployment", "Machine"} {
		if group := (schema.GroupKind{Group: clusterAPIGroup, Kind: kind}); first[group] == nil {
			kinds[group.WithVersion(version)] = true
		}
	}
	for _, o := range first {
		kinds[o.GroupVersionKind()] = true
	}
	for kind := range kinds {
		versions = append(versions, kind.GroupVersion())
	}
	f.mapper = meta.NewDefaultRESTMapper(versions)
	for kind := range kinds {
		f.mapper.Add(kind, meta.RESTScopeNamespace)
	}
	return f, nil
}

// reads reports whether objects of a kind count.
func (f *capiFiles) reads(kind string) bool {
	return slices.ContainsFunc(f.objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == kind && isOfClusterAPI(o.GroupVersionKind().Group)
	})
}

// RESTMapper knows the kinds of the objects.
func (f *capiFiles) RESTMapper() meta.RESTMapper { return f.mapper }

// Get returns an object of the files. The Namespace kube-system has no UID if it is not there, so that no Machine belongs to
// the cluster.
func (f *capiFiles) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	err := f.objectFiles.Get(ctx, key, into, opts...)
	if !apierrors.IsNotFound(err) {
		return err
	}
	if _, isNamespace := into.(*corev1.Namespace); isNamespace {
		return nil
	}
	if kind := into.GetObjectKind().GroupVersionKind(); kind.Group == clusterAPIGroup && kind.Kind == "Cluster" {
		f.lacking[key.String()] = true
		return nil
	}
	return err
}

// List returns the objects of a kind in the files.
func (f *capiFiles) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	list, ok := into.(*unstructured.UnstructuredList)
	if !ok {
		return fmt.Errorf("list %T of files: it is not untyped", into)
	}
	asked := (&client.ListOptions{}).ApplyOptions(opts)
	want := into.GetObjectKind().GroupVersionKind()
	want.Kind = strings.TrimSuffix(want.Kind, "List")
	for _, o := range f.objects {
		isWanted := o.GroupVersionKind() == want && (asked.Namespace == "" || asked.Namespace == o.GetNamespace())
		if isWanted && (asked.LabelSelector == nil || asked.LabelSelector.Matches(labels.Set(o.GetLabels()))) {
			list.Items = append(list.Items, *o.DeepCopy())
		}
	}
	return nil
}
