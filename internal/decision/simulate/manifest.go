package simulate

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/convert"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// document is one document of a YAML file, and where it stands.
type document struct {
	path        string
	index, line int // from 1
	text        []byte
}

func (d *document) wrap(err error) error {
	return fmt.Errorf("%s: document %d (line %d): %w", d.path, d.index, d.line, err)
}

// documents reads all YAML and JSON files that the paths name, directories with all that
// is below them; each in the order of names.
func documents(paths []string) ([]document, error) {
	var all []document
	for _, root := range paths {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return fmt.Errorf("read manifests: %w", err)
			}
			readable := path == root || slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path))
			if entry.IsDir() || !readable {
				return nil
			}
			content, err := readPlain(path)
			if err != nil {
				return err
			}
			all = append(all, split(path, content)...)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no manifests there: no .yaml, .yml or .json with anything in it", strings.Join(paths, ", "))
	}
	return all, nil
}

// Others returns the objects of manifests whose kinds say nothing here, and Namespaces, from whose UIDs providers know
// whose an instance is. Node classes are among them.
func Others(paths []string) ([]*unstructured.Unstructured, error) {
	docs, err := documents(paths)
	if err != nil {
		return nil, err
	}
	var others []*unstructured.Unstructured
	var add func(text []byte) error
	add = func(text []byte) error {
		o := &unstructured.Unstructured{}
		if err := unmarshal(text, &o.Object, false); err != nil {
			return err
		}
		items, isList := o.Object["items"].([]any)
		if !isList {
			if known := objectOf(o.GetAPIVersion(), o.GetKind()); o.GetKind() != "" && (known == nil || o.GetKind() == "Namespace") {
				others = append(others, o)
			}
			return nil
		}
		for _, item := range items {
			raw, err := json.Marshal(item)
			if err == nil {
				err = add(raw)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	for i := range docs {
		if err := add(docs[i].text); err != nil {
			return nil, docs[i].wrap(err)
		}
	}
	return others, nil
}

// readPlain reads a file, which may be compressed with gzip.
func readPlain(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(content, []byte{0x1f, 0x8b}) {
		return content, err
	}
	r, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if content, err = io.ReadAll(r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return content, nil
}

// split cuts a file at its lines that start with "---".
func split(path string, content []byte) []document {
	var docs []document
	current := document{path: path, index: 1, line: 1}
	end := func(next int) {
		if len(bytes.TrimSpace(current.text)) > 0 {
			docs = append(docs, current)
		}
		current = document{path: path, index: current.index + 1, line: next}
	}
	for i, line := range bytes.SplitAfter(content, []byte("\n")) {
		if bytes.HasPrefix(line, []byte("---")) {
			if current.index == 1 && len(bytes.TrimSpace(current.text)) == 0 {
				current = document{path: path, index: 1, line: i + 2}
				continue
			}
			end(i + 2)
			continue
		}
		current.text = append(current.text, line...)
	}
	end(0)
	return docs
}

// manifests is what was read, sorted by what it means here.
type manifests struct {
	pools     []*karpenterv1.NodePool
	workloads []workload
	pods      []*corev1.Pod
	// buffers are the CapacityBuffers, named what they may name.
	buffers []*autoscalingv1beta1.CapacityBuffer
	named   []client.Object
	// others is all else that the mirror watches.
	others []client.Object
	// admission is what new pods are filled in by, and fresh the pods that it has not seen.
	admission admission
	fresh     map[*corev1.Pod]bool
	// ignored counts the objects of kinds that have no say, by kind.
	ignored map[string]int
	at      map[client.Object]*document
}

// workload is a template and how many pods are made of it.
type workload struct {
	kind, namespace, name string
	template              *corev1.PodTemplateSpec
	pods                  int
}

func newManifests() *manifests {
	return &manifests{admission: newAdmission(), fresh: map[*corev1.Pod]bool{}, ignored: map[string]int{}, at: map[client.Object]*document{}}
}

// readManifests reads all objects of the documents. The error names the document.
func readManifests(docs []document) (*manifests, error) {
	m := newManifests()
	for i := range docs {
		if err := m.add(&docs[i], docs[i].text); err != nil {
			return nil, docs[i].wrap(err)
		}
	}
	return m, nil
}

func (m *manifests) add(d *document, text []byte) error {
	var head struct {
		metav1.TypeMeta `json:",inline"`
		Items           []runtime.RawExtension `json:"items"`
	}
	if err := unmarshal(text, &head, false); err != nil {
		return err
	}
	switch {
	case head.Kind == "" && head.APIVersion == "":
		if blank(text) {
			return nil
		}
		return errors.New("has no apiVersion and kind")
	case strings.HasSuffix(head.Kind, "List"):
		for i := range head.Items {
			if err := m.add(d, head.Items[i].Raw); err != nil {
				return fmt.Errorf("item %d: %w", i, err)
			}
		}
		return nil
	}
	o := objectOf(head.APIVersion, head.Kind)
	if o == nil && convert.IsOlder(head.APIVersion) {
		return fmt.Errorf("%s of %s is an older version: dovetail convert -f %s writes it as v1", head.Kind, head.APIVersion, d.path)
	}
	if o == nil {
		m.ignored[head.Kind]++
		return nil
	}
	if err := unmarshal(text, o, true); err != nil {
		return fmt.Errorf("%s: %w", head.Kind, err)
	}
	if o.GetName() == "" {
		return fmt.Errorf("%s: metadata.name is missing", head.Kind)
	}
	if o.GetUID() == "" { // no API server has seen it
		if p, ok := o.(*corev1.Pod); ok {
			m.fresh[p] = true
		}
		o.SetUID(types.UID(fmt.Sprintf("%s/%s/%s", head.Kind, o.GetNamespace(), o.GetName())))
	}
	m.at[o] = d
	return m.sortIn(o)
}

// unmarshal reads a document; strict refuses fields that are not known. What is JSON is
// read as such, because that is much faster.
func unmarshal(text []byte, into any, strict bool) error {
	if text := bytes.TrimSpace(text); len(text) > 0 && text[0] == '{' && json.Valid(text) {
		dec := json.NewDecoder(bytes.NewReader(text))
		if strict {
			dec.DisallowUnknownFields()
		}
		return dec.Decode(into)
	}
	if strict {
		return yaml.UnmarshalStrict(text, into)
	}
	return yaml.Unmarshal(text, into)
}

// blank reports whether a document has nothing but comments.
func blank(text []byte) bool {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

// objectOf returns an empty object of a kind that has a say in what is launched; nil for
// other kinds.
func objectOf(apiVersion, kind string) client.Object {
	switch apiVersion + " " + kind {
	case "karpenter.sh/v1 NodePool":
		return &karpenterv1.NodePool{}
	case "karpenter.sh/v1 NodeClaim":
		return &karpenterv1.NodeClaim{}
	case "apps/v1 Deployment":
		return &appsv1.Deployment{}
	case "apps/v1 StatefulSet":
		return &appsv1.StatefulSet{}
	case "apps/v1 ReplicaSet":
		return &appsv1.ReplicaSet{}
	case "apps/v1 DaemonSet":
		return &appsv1.DaemonSet{}
	case "batch/v1 Job":
		return &batchv1.Job{}
	case "v1 Pod":
		return &corev1.Pod{}
	case "v1 Node":
		return &corev1.Node{}
	case "v1 Namespace":
		return &corev1.Namespace{}
	case "v1 LimitRange":
		return &corev1.LimitRange{}
	case "node.k8s.io/v1 RuntimeClass":
		return &nodev1.RuntimeClass{}
	case "v1 PersistentVolumeClaim":
		return &corev1.PersistentVolumeClaim{}
	case "v1 PersistentVolume":
		return &corev1.PersistentVolume{}
	case "storage.k8s.io/v1 StorageClass":
		return &storagev1.StorageClass{}
	case "storage.k8s.io/v1 CSINode":
		return &storagev1.CSINode{}
	case "storage.k8s.io/v1 VolumeAttachment":
		return &storagev1.VolumeAttachment{}
	case "policy/v1 PodDisruptionBudget":
		return &policyv1.PodDisruptionBudget{}
	case "scheduling.k8s.io/v1beta1 PodGroup":
		return &schedulingv1beta1.PodGroup{}
	case "autoscaling.x-k8s.io/v1beta1 CapacityBuffer":
		return &autoscalingv1beta1.CapacityBuffer{}
	case "v1 PodTemplate":
		return &corev1.PodTemplate{}
	}
	return nil
}

const defaultNamespace = "default"

func (m *manifests) sortIn(o client.Object) error {
	inNamespace := func() string {
		o.SetNamespace(cmp.Or(o.GetNamespace(), defaultNamespace))
		return o.GetNamespace()
	}
	switch o := o.(type) {
	case *karpenterv1.NodePool:
		kind, _ := convert.ClassKind("aws") // which one does not matter here
		o.Spec.Template.Spec.NodeClassRef = convert.Complete(o.Spec.Template.Spec.NodeClassRef, kind)
		m.pools = append(m.pools, o)
	case *karpenterv1.NodeClaim:
		if o.Spec.NodeClassRef == nil {
			return fmt.Errorf("NodeClaim %s: spec.nodeClassRef is missing", o.Name)
		}
		m.others = append(m.others, o)
	case *autoscalingv1beta1.CapacityBuffer:
		inNamespace()
		m.buffers = append(m.buffers, o)
	case *corev1.PodTemplate:
		inNamespace()
		m.named = append(m.named, o)
	case *appsv1.Deployment:
		return m.addWorkload(o, "Deployment", &o.Spec.Template, o.Spec.Replicas)
	case *appsv1.StatefulSet:
		return m.addWorkload(o, "StatefulSet", &o.Spec.Template, o.Spec.Replicas)
	case *appsv1.ReplicaSet:
		return m.addWorkload(o, "ReplicaSet", &o.Spec.Template, o.Spec.Replicas)
	case *batchv1.Job:
		pods := o.Spec.Parallelism
		if c := o.Spec.Completions; c != nil && (pods != nil && *c < *pods) {
			pods = c
		}
		return m.addWorkload(o, "Job", &o.Spec.Template, pods)
	case *corev1.Pod:
		inNamespace()
		m.pods = append(m.pods, o)
	case *corev1.Node:
		o.Spec.ProviderID = cmp.Or(o.Spec.ProviderID, "file:///"+o.Name)
		if len(o.Status.Allocatable) == 0 {
			o.Status.Allocatable = o.Status.Capacity
		}
		m.others = append(m.others, o)
	case *nodev1.RuntimeClass:
		m.admission.runtimes[o.Name] = o
		m.others = append(m.others, o)
	case *corev1.LimitRange:
		ns := inNamespace()
		m.admission.ranges[ns] = append(m.admission.ranges[ns], o)
		m.others = append(m.others, o)
	case *appsv1.DaemonSet, *policyv1.PodDisruptionBudget, *corev1.PersistentVolumeClaim, *schedulingv1beta1.PodGroup:
		inNamespace()
		m.others = append(m.others, o)
	default:
		m.others = append(m.others, o)
	}
	return nil
}

// addWorkload takes a workload in that has so many pods; nil: one.
func (m *manifests) addWorkload(o client.Object, kind string, template *corev1.PodTemplateSpec, pods *int32) error {
	o.SetNamespace(cmp.Or(o.GetNamespace(), defaultNamespace))
	if kind != "Job" { // no buffer is about one
		m.named = append(m.named, o)
	}
	n := 1
	if pods != nil {
		n = int(*pods)
	}
	if n < 0 {
		return fmt.Errorf("%s %s: it has %d pods; it may have 0 and more", kind, o.GetName(), n)
	}
	if len(o.GetOwnerReferences()) > 0 { // its owner is there, or made its pods already
		return nil
	}
	m.workloads = append(m.workloads, workload{kind, o.GetNamespace(), o.GetName(), template, n})
	return nil
}

// notes says what of the manifests was left out.
func (m *manifests) notes(from *Catalog) []string {
	gates := from.Gates
	var parts []string
	for kind, n := range m.ignored {
		if isRead := from.Reads != nil && from.Reads(kind); !isRead && !strings.HasSuffix(kind, "NodeClass") {
			parts = append(parts, strconv.Itoa(n)+" "+kind)
		}
	}
	var notes []string
	if len(parts) > 0 {
		slices.Sort(parts)
		notes = append(notes, "of no say here: "+strings.Join(parts, ", "))
	}
	if n := len(m.buffers); n > 0 && !gates.CapacityBuffer {
		notes = append(notes, "no room is kept for "+counted(n, "CapacityBuffer")+": the feature gate CapacityBuffer is off")
	}
	isStatic := 0
	for _, np := range m.pools {
		if translate.Static(np) {
			isStatic++
		}
	}
	if isStatic > 0 && !gates.StaticCapacity {
		notes = append(notes, "nothing is launched for "+counted(isStatic, "NodePool")+" with replicas: the feature gate StaticCapacity is off")
	}
	for _, name := range slices.Sorted(maps.Keys(m.admission.missing)) {
		notes = append(notes, "RuntimeClass "+name+" is not among the manifests: what it adds to its pods is not counted")
	}
	return notes
}
