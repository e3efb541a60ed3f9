package translate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// wired writes objects as the API server does, and reads them as clients do.
type wired struct {
	tb      testing.TB
	codecs  serializer.CodecFactory
	version schema.GroupVersion
	media   string
}

func (w wired) info() runtime.SerializerInfo {
	info, ok := runtime.SerializerInfoForMediaType(w.codecs.SupportedMediaTypes(), w.media)
	if !ok {
		w.tb.Fatalf("no serializer for %s", w.media)
	}
	return info
}

func (w wired) write(o runtime.Object) []byte {
	w.tb.Helper()
	var data bytes.Buffer
	if err := w.codecs.EncoderForVersion(w.info().Serializer, w.version).Encode(o.DeepCopyObject(), &data); err != nil {
		w.tb.Fatal(err)
	}
	return data.Bytes()
}

func (w wired) decoder() runtime.Decoder {
	return serializer.WithoutConversionCodecFactory{CodecFactory: w.codecs}.DecoderToVersion(w.info().Serializer, w.version)
}

// read reads what was written.
func (w wired) read(d runtime.Decoder, data []byte) runtime.Object {
	w.tb.Helper()
	o, _, err := d.Decode(data, nil, nil)
	if err != nil {
		w.tb.Fatal(err)
	}
	return o
}

func protobuf(tb testing.TB) wired {
	return wired{tb, serializer.NewCodecFactory(scheme.Scheme), corev1.SchemeGroupVersion, runtime.ContentTypeProtobuf}
}

// trimmed returns what is left of an object after its trimmer.
func trimmed(o runtime.Object) runtime.Object {
	switch o := o.(type) {
	case *corev1.Pod:
		TrimPod(o)
	case *corev1.Node:
		TrimNode(o)
	case *corev1.PodList:
		for i := range o.Items {
			TrimPod(&o.Items[i])
		}
	}
	return o
}

func TestWhatIsReadLeanIsWhatTrimmingLeaves(t *testing.T) {
	t.Parallel()
	w := protobuf(t)
	fill := randfill.NewWithSeed(1).NilChance(0.3).NumElements(0, 3).MaxDepth(14).Funcs(
		func(fields *metav1.FieldsV1, _ randfill.Continue) { *fields = *metav1.NewFieldsV1(`{"f:a":{}}`) },
		func(kind *corev1.PodConditionType, c randfill.Continue) {
			*kind = append([]corev1.PodConditionType{corev1.ContainersReady, ""}, readConditions...)[c.Intn(2+len(readConditions))]
		},
	)
	for range 100 {
		for _, o := range []runtime.Object{&corev1.Pod{}, &corev1.Node{}, &corev1.Service{}, &corev1.PodList{}} {
			fill.Fill(o)
			o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
			data := w.write(o)
			before := bytes.Clone(data)
			whole, reader := trimmed(w.read(w.decoder(), data)), WireReader{w.decoder(), &PodTrimmer{}}
			for range 2 { // a spec that was read before is not read again
				if diff := cmp.Diff(whole, trimmed(w.read(reader, data))); diff != "" {
					t.Fatalf("%T (-whole +lean):\n%s", o, diff)
				}
			}
			if !bytes.Equal(before, data) {
				t.Fatalf("%T: reading changed what was read", o)
			}
		}
	}
}

// TestAnObjectKeepsNothingOfWhatItWasReadFrom: the memory of one reading is that of the next.
func TestAnObjectKeepsNothingOfWhatItWasReadFrom(t *testing.T) {
	t.Parallel()
	w := protobuf(t)
	fill := randfill.NewWithSeed(2).NilChance(0.1).NumElements(1, 3).MaxDepth(14).Funcs(
		func(fields *metav1.FieldsV1, _ randfill.Continue) { *fields = *metav1.NewFieldsV1(`{"f:a":{}}`) },
	)
	for range 50 {
		var pod corev1.Pod
		fill.Fill(&pod)
		kind := inUnknown(wire.kinds["Pod"])
		data := w.write(&pod)
		lean, ok := kind.appendTrimmed(bytes.Clone(wirePrefix), data[len(wirePrefix):])
		if !ok {
			t.Fatal("not understood")
		}
		read := w.read(w.decoder(), lean)
		had := read.DeepCopyObject()
		for i := range lean {
			lean[i] = 'x'
		}
		if diff := cmp.Diff(had, read); diff != "" {
			t.Fatalf("after the memory was written to (-before +after):\n%s", diff)
		}
	}
}

func TestMostOfAPodIsNotRead(t *testing.T) {
	t.Parallel()
	w := protobuf(t)
	for name, o := range map[string]runtime.Object{"pod": fullPod("a"), "list": &corev1.PodList{Items: []corev1.Pod{*fullPod("a")}}} {
		text, err := json.Marshal(w.read(WireReader{w.decoder(), &PodTrimmer{}}, w.write(o)))
		if err != nil {
			t.Fatal(err)
		}
		for _, gone := range []string{"kubelet", `"env"`, "livenessProbe", "secretName", `"image":"image"`, "podIP"} {
			if bytes.Contains(text, []byte(gone)) {
				t.Errorf("%s: %s is read: %s", name, gone, text)
			}
		}
	}
}

// TestASpecIsReadOnce: pods that differ in their names, nodes and tokens share the memory of their specs, whoever owns
// them, and what a pod has of its own is not another's.
func TestASpecIsReadOnce(t *testing.T) {
	t.Parallel()
	w := protobuf(t)
	reader := WireReader{w.decoder(), &PodTrimmer{}}
	read := func(name string, change func(*corev1.Pod)) *corev1.Pod {
		p := fullPod(name)
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "token-of-" + name, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}})
		p.OwnerReferences = []metav1.OwnerReference{{UID: types.UID("owner of " + name)}}
		change(p)
		return w.read(reader, w.write(p)).(*corev1.Pod)
	}
	same := func(*corev1.Pod) {}
	a, b := read("a", same), read("b", same)
	if &a.Spec.Containers[0] != &b.Spec.Containers[0] {
		t.Error("the spec of b is read again")
	}
	if a.Spec.NodeName != "node-of-a" || b.Spec.NodeName != "node-of-b" || b.Name != "b" {
		t.Errorf("pods %s and %s are on %s and %s", a.Name, b.Name, a.Spec.NodeName, b.Spec.NodeName)
	}
	for name, change := range map[string]func(*corev1.Pod){
		"c": func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("300m")
		},
		"d": func(p *corev1.Pod) { p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: "k"}) },
		"e": func(p *corev1.Pod) { p.Spec.Volumes[0].EmptyDir = &corev1.EmptyDirVolumeSource{} },
	} {
		if p := read(name, change); &p.Spec.Containers[0] == &a.Spec.Containers[0] {
			t.Errorf("pod %s has the spec of a", name)
		}
	}
	if p := read("waits", func(p *corev1.Pod) { p.Spec.NodeName = "" }); p.Spec.NodeName != "" || &p.Spec.Containers[0] != &a.Spec.Containers[0] {
		t.Errorf("a pod that waits is on %q, or its spec is read again", p.Spec.NodeName)
	}
}

// TestMetadataAreReadOnce: what pods share of their metadata, and what their kubelets say of their containers, is read
// once, with the annotations that nobody reads left out.
func TestMetadataAreReadOnce(t *testing.T) {
	t.Parallel()
	w := protobuf(t)
	reader := WireReader{w.decoder(), &PodTrimmer{}}
	read := func(name string) *corev1.Pod {
		p := fullPod(name)
		p.Annotations["addresses.test/of"] = name
		p.Status.ContainerStatuses[0].ContainerID = "container of " + name
		return w.read(reader, w.write(p)).(*corev1.Pod)
	}
	a, b := read("a"), read("b")
	if reflect.ValueOf(a.Labels).Pointer() != reflect.ValueOf(b.Labels).Pointer() {
		t.Error("the labels of b are read again")
	}
	if n := len(reader.Pods.metadata); n != 1 {
		t.Errorf("the metadata of pods that differ in names and an annotation that nobody reads count as %d, want 1", n)
	}
	waits, moved := fullPod("waits"), fullPod("moved")
	waits.Status, moved.Labels["moved"] = corev1.PodStatus{}, "yes"
	w.read(reader, w.write(moved)) // the metadata are remembered, and nothing of the containers of one that waits
	moved.Status, moved.Labels["moved"] = corev1.PodStatus{}, "no"
	w.read(reader, w.write(moved))
	for name, p := range map[string]*corev1.Pod{"c": fullPod("c"), "waits": waits, "resized": resized("resized")} {
		object, _ := find(w.write(p)[len(wirePrefix):], unknownRaw)
		parts, _ := partsOf(object, nil)
		reader.Pods.know(&parts)
		if want := (knownParts{spec: true, meta: true, states: name != "resized"}); parts.known != want {
			t.Errorf("of pod %s is known: %+v, want %+v", name, parts.known, want)
		}
	}
}

// TestABookmarkStaysOne: without its annotation no informer of pods would ever be filled.
func TestABookmarkStaysOne(t *testing.T) {
	t.Parallel()
	w := protobuf(t)
	mark := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
	read := w.read(WireReader{w.decoder(), &PodTrimmer{}}, w.write(mark)).(*corev1.Pod)
	if diff := cmp.Diff(mark.ObjectMeta, read.ObjectMeta); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
}

func TestAReaderForgetsParts(t *testing.T) {
	t.Parallel()
	trimmer := &PodTrimmer{}
	for i := range 3 * workloadsMost {
		trimmer.remember(&corev1.Pod{}, &podParts{spec: []byte(fmt.Sprint(i)), meta: []byte(fmt.Sprint(i))})
	}
	if specs, metadata := len(trimmer.specs), len(trimmer.metadata); specs > workloadsMost || metadata > workloadsMost {
		t.Errorf("remembers %d specs and %d metadata", specs, metadata)
	}
	large := make([]byte, partMost+1)
	trimmer.remember(&corev1.Pod{}, &podParts{spec: large, meta: large})
	if trimmer.specs[string(large)] != nil || trimmer.metadata[string(large)] != nil {
		t.Errorf("remembers %d bytes of one pod", len(large))
	}
}

// FuzzWire reads what no API server sends: it fails as it does without trimming, or is left as it is.
func FuzzWire(f *testing.F) {
	w := protobuf(f)
	for _, o := range []runtime.Object{fullPod("a"), &corev1.Node{Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{SizeBytes: 1}}}}, &metav1.Status{}} {
		f.Add(w.write(o))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		whole, _, err := w.decoder().Decode(data, nil, nil)
		reader := WireReader{w.decoder(), &PodTrimmer{}}
		for range 2 {
			lean, _, leanErr := reader.Decode(data, nil, nil)
			if err == nil && leanErr != nil {
				t.Fatalf("not read: %v", leanErr)
			}
			if err == nil && !bytes.Equal(text(t, trimmed(whole)), text(t, lean)) {
				t.Fatalf("%s", cmp.Diff(whole, lean))
			}
		}
	})
}

func text(t *testing.T, o runtime.Object) []byte {
	t.Helper()
	b, err := json.Marshal(o)
	if err != nil {
		t.Skip("JSON has no times beyond the year 9999, which what is fuzzed may have")
	}
	return b
}

// events writes watch events as the API server does, in one media type, and reads them by its serializer and lean.
type events struct {
	written    [][]byte
	whole      runtime.Serializer
	lean       EventReader
	mediaTypes string
}

func eventsIn(w wired) events {
	stream := w.info().StreamSerializer.Serializer
	e := events{whole: stream, lean: EventReader{stream}, mediaTypes: w.media}
	for _, o := range []runtime.Object{fullPod("a"), &corev1.Pod{}, &metav1.Status{Message: `"object":{`}, &corev1.ConfigMap{Data: map[string]string{"a": `","object":{"}}`}}} {
		var data bytes.Buffer
		event := &metav1.WatchEvent{Type: "MODIFIED", Object: runtime.RawExtension{Raw: w.write(o)}}
		if err := stream.Encode(event, &data); err != nil {
			w.tb.Fatal(err)
		}
		written := data.Bytes()
		if w.media == runtime.ContentTypeJSON {
			written = bytes.TrimSpace(written) // as what separates events does
		}
		e.written = append(e.written, written)
	}
	return e
}

func (e events) read(s runtime.Serializer, data []byte) (*metav1.WatchEvent, error) {
	event := &metav1.WatchEvent{Type: "of before", Object: runtime.RawExtension{Raw: []byte("of before")}}
	o, _, err := s.Decode(data, nil, event)
	if err == nil && o != runtime.Object(event) {
		err = fmt.Errorf("%T was read", o)
	}
	return event, err
}

func everyEvents(tb testing.TB) []events {
	tb.Helper()
	inJSON := protobuf(tb)
	inJSON.media = runtime.ContentTypeJSON
	return []events{eventsIn(protobuf(tb)), eventsIn(inJSON)}
}

func TestAWatchEventIsWhatTheSerializerReads(t *testing.T) {
	t.Parallel()
	for _, e := range everyEvents(t) {
		for _, data := range e.written {
			if _, object := splitEvent(data); object == nil {
				t.Errorf("%s: not understood: %q", e.mediaTypes, data)
			}
			want, err := e.read(e.whole, data)
			got, leanErr := e.read(e.lean, data)
			if diff := cmp.Diff(want, got); diff != "" || err != nil || leanErr != nil {
				t.Errorf("%s: %v, %v (-whole +lean):\n%s", e.mediaTypes, err, leanErr, diff)
			}
		}
	}
}

// TestAnotherOrderOfAWatchEvent: an event that is not written as the API server does is read by the serializer.
func TestAnotherOrderOfAWatchEvent(t *testing.T) {
	t.Parallel()
	e := everyEvents(t)[1]
	for _, data := range []string{
		`{"object":{"a":1},"type":"ADDED"}`, ` {"type":"ADDED","object":{"a":1}}`, `{"type":"AD\u0044ED","object":{"a":1}}`, `{"type":"ADDED", "object":{"a":1}}`,
		`{"type":"ADDED","object":{"a":1}} `,
	} {
		want, err := e.read(e.whole, []byte(data))
		got, leanErr := e.read(e.lean, []byte(data))
		if diff := cmp.Diff(want, got); diff != "" || err != nil || leanErr != nil {
			t.Errorf("%s: %v, %v (-whole +lean):\n%s", data, err, leanErr, diff)
		}
	}
	for _, data := range []string{"", "{", `{"type":"ADDED"`, `{"type":"ADDED","object":`, "7"} {
		if _, err := e.read(e.lean, []byte(data)); err == nil {
			t.Errorf("%q is read", data)
		}
	}
}

func TestReadClaim(t *testing.T) {
	t.Parallel()
	s := runtime.NewScheme()
	if err := karpenterv1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	w := wired{t, serializer.NewCodecFactory(s), karpenterv1.GroupVersion, runtime.ContentTypeJSON}
	for _, data := range []string{
		`{"apiVersion":"karpenter.sh/v1","kind":"NodeClaim","metadata":{"name":"a","labels":{"b":"c"}},"spec":{"requirements":[{"key":"k","operator":"In","values":["v"]}]},"status":{"providerID":"p","capacity":{"cpu":"4"}}}`,
		`{"kind":"NodeClaim","apiVersion":"karpenter.sh/v1","metadata":{"name":"a"}}`,
		`{"apiVersion":"karpenter.sh/v1","kind":"NodePool","metadata":{"name":"a"}}`,
	} {
		whole, kind, err := w.decoder().Decode([]byte(data), nil, nil)
		lean, leanKind, leanErr := WireReader{w.decoder(), &PodTrimmer{}}.Decode([]byte(data), nil, nil)
		if diff := cmp.Diff(whole, lean); diff != "" || err != nil || leanErr != nil || *kind != *leanKind {
			t.Errorf("%s: %v, %v, %v, %v (-whole +lean):\n%s", data, err, leanErr, kind, leanKind, diff)
		}
	}
	for _, data := range []string{`{"apiVersion":"karpenter.sh/v1","kind":"NodeClaim",`, `{"apiVersion":"karpenter.sh/v1","kind":"NodeClaim","metadata":7}`, ``} {
		if _, _, err := (WireReader{w.decoder(), &PodTrimmer{}}).Decode([]byte(data), nil, nil); err == nil {
			t.Errorf("%q is read", data)
		}
	}
}

// BenchmarkReadPod reads a pod that runs, of a workload of which pods were read before.
func BenchmarkReadPod(b *testing.B) {
	w := protobuf(b)
	pod := fullPod("a")
	pod.Status.Conditions = nil
	for _, kind := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(1_700_000_000, 0)})
	}
	data, reader := w.write(pod), WireReader{w.decoder(), &PodTrimmer{}}
	b.ReportAllocs()
	for b.Loop() {
		w.read(reader, data)
	}
}
