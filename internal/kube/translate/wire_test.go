package translate

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// wire writes objects as the API server does, and reads them as clients do.
type wire struct {
	tb      testing.TB
	codecs  serializer.CodecFactory
	version schema.GroupVersion
	media   string
}

func (w wire) info() runtime.SerializerInfo {
	info, ok := runtime.SerializerInfoForMediaType(w.codecs.SupportedMediaTypes(), w.media)
	if !ok {
		w.tb.Fatalf("no serializer for %s", w.media)
	}
	return info
}

func (w wire) write(o runtime.Object) []byte {
	w.tb.Helper()
	var data bytes.Buffer
	if err := w.codecs.EncoderForVersion(w.info().Serializer, w.version).Encode(o.DeepCopyObject(), &data); err != nil {
		w.tb.Fatal(err)
	}
	return data.Bytes()
}

func (w wire) decoder() runtime.Decoder {
	return serializer.WithoutConversionCodecFactory{CodecFactory: w.codecs}.DecoderToVersion(w.info().Serializer, w.version)
}

// read reads what was written.
func (w wire) read(d runtime.Decoder, data []byte) runtime.Object {
	w.tb.Helper()
	o, _, err := d.Decode(data, nil, nil)
	if err != nil {
		w.tb.Fatal(err)
	}
	return o
}

func protobuf(tb testing.TB) wire {
	return wire{tb, serializer.NewCodecFactory(scheme.Scheme), corev1.SchemeGroupVersion, runtime.ContentTypeProtobuf}
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
	)
	for range 100 {
		for _, o := range []runtime.Object{&corev1.Pod{}, &corev1.Node{}, &corev1.Service{}, &corev1.PodList{}} {
			fill.Fill(o)
			o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
			data := w.write(o)
			before := bytes.Clone(data)
			whole, lean := w.read(w.decoder(), data), w.read(WireReader{w.decoder()}, data)
			if diff := cmp.Diff(trimmed(whole), trimmed(lean)); diff != "" {
				t.Fatalf("%T (-whole +lean):\n%s", o, diff)
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
		kind := message{}.with(unknownRaw, wireKinds["Pod"])
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
		text, err := json.Marshal(w.read(WireReader{w.decoder()}, w.write(o)))
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

// FuzzWire reads what no API server sends: it fails as it does without trimming, or is left as it is.
func FuzzWire(f *testing.F) {
	w := protobuf(f)
	for _, o := range []runtime.Object{fullPod("a"), &corev1.Node{Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{SizeBytes: 1}}}}, &metav1.Status{}} {
		f.Add(w.write(o))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		whole, _, err := w.decoder().Decode(data, nil, nil)
		lean, _, leanErr := WireReader{w.decoder()}.Decode(data, nil, nil)
		if err == nil && leanErr != nil {
			t.Fatalf("not read: %v", leanErr)
		}
		if err == nil && !bytes.Equal(text(t, trimmed(whole)), text(t, trimmed(lean))) {
			t.Fatalf("%s", cmp.Diff(whole, lean))
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

func TestReadClaim(t *testing.T) {
	t.Parallel()
	s := runtime.NewScheme()
	if err := karpenterv1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	w := wire{t, serializer.NewCodecFactory(s), karpenterv1.GroupVersion, runtime.ContentTypeJSON}
	for _, data := range []string{
		`{"apiVersion":"karpenter.sh/v1","kind":"NodeClaim","metadata":{"name":"a","labels":{"b":"c"}},"spec":{"requirements":[{"key":"k","operator":"In","values":["v"]}]},"status":{"providerID":"p","capacity":{"cpu":"4"}}}`,
		`{"kind":"NodeClaim","apiVersion":"karpenter.sh/v1","metadata":{"name":"a"}}`,
		`{"apiVersion":"karpenter.sh/v1","kind":"NodePool","metadata":{"name":"a"}}`,
	} {
		whole, kind, err := w.decoder().Decode([]byte(data), nil, nil)
		lean, leanKind, leanErr := WireReader{w.decoder()}.Decode([]byte(data), nil, nil)
		if diff := cmp.Diff(whole, lean); diff != "" || err != nil || leanErr != nil || *kind != *leanKind {
			t.Errorf("%s: %v, %v, %v, %v (-whole +lean):\n%s", data, err, leanErr, kind, leanKind, diff)
		}
	}
	for _, data := range []string{`{"apiVersion":"karpenter.sh/v1","kind":"NodeClaim",`, `{"apiVersion":"karpenter.sh/v1","kind":"NodeClaim","metadata":7}`, ``} {
		if _, _, err := (WireReader{w.decoder()}).Decode([]byte(data), nil, nil); err == nil {
			t.Errorf("%q is read", data)
		}
	}
}
