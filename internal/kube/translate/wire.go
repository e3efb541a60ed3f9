package translate

import (
	"bytes"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// message says which fields of a Protobuf message are trimmed. Fields that it does not name stay, those of later
// versions included.
type message struct {
	// fields are by their numbers: nil stays as it is, gone is dropped, and another is a message that is trimmed itself.
	fields []*message
	// needs is a field without which nothing of the message is left; 0: none is needed. It must have one of the texts of
	// oneOf, unless there are none.
	needs protowire.Number
	oneOf []string
}

// gone is what a message has in the place of a field that is dropped.
var gone = &message{} //nolint:gochecknoglobals // a constant that Go cannot spell

// dropped returns a message without some fields.
func dropped(fields ...protowire.Number) *message {
	m := &message{}
	for _, number := range fields {
		m = m.with(number, gone)
	}
	return m
}

// with returns a message with another field that is trimmed itself, or gone.
func (m *message) with(number protowire.Number, field *message) *message {
	fields := make([]*message, max(len(m.fields), int(number)+1))
	copy(fields, m.fields)
	fields[number] = field
	return &message{fields, m.needs, m.oneOf}
}

// leaves reports whether something is left of the message if so much of it has been trimmed.
func (m *message) leaves(trimmed []byte) bool {
	if m.needs == 0 {
		return true
	}
	has, _ := find(trimmed, m.needs)
	if m.oneOf == nil {
		return len(has) > 0
	}
	for _, text := range m.oneOf {
		if string(has) == text {
			return true
		}
	}
	return false
}

// field returns what is done with a field.
func (m *message) field(number protowire.Number) *message {
	if int(number) < len(m.fields) {
		return m.fields[number]
	}
	return nil
}

const (
	objectMetadata, objectSpec, objectStatus protowire.Number = 1, 2, 3
	// listItems are the items of every list.
	listItems protowire.Number = 2
	// specNode is the name of the node in the spec of a pod; volumeSource is what a volume is, conditionType what a condition.
	specNode, volumeSource, conditionType protowire.Number = 10, 2, 1
	// unknownType and unknownRaw are fields of runtime.Unknown, in which every object is; typeVersion and typeKind are of
	// its type.
	unknownType, unknownRaw, typeVersion, typeKind protowire.Number = 1, 2, 1, 2
	// eventType and eventObject are fields of a watch event; extensionRaw is one of its object, in which the object is.
	eventType, eventObject, extensionRaw protowire.Number = 1, 2, 1
)

// wirePrefix begins every object in Protobuf.
var wirePrefix = []byte{'k', '8', 's', 0} //nolint:gochecknoglobals // a constant that Go cannot spell

// wire is the messages that are trimmed. The numbers are those of the API's generated.proto; what is dropped is what
// TrimPod and TrimNode take away.
var wire = func() (w struct { //nolint:gochecknoglobals // a constant that Go cannot spell
	// kinds are by the kinds of objects.
	kinds map[string]*message
	// shared is a pod's spec without what differs between pods that are otherwise alike, specless a pod without its spec.
	shared, specless *message
},
) {
	conditions := &message{needs: conditionType}
	for _, read := range readConditions {
		conditions.oneOf = append(conditions.oneOf, string(read))
	}
	meta := dropped(17)                                                                                          // managedFields
	container := dropped(2, 3, 4, 5, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22)                   // all but name, ports and resources
	state := dropped(2, 3, 6, 7, 8, 12, 13)                                                                      // state, lastState, image, imageID, containerID, volumeMounts, user
	volume := &message{fields: dropped().with(volumeSource, dropped(6, 16, 19, 26)).fields, needs: volumeSource} // secret, downwardAPI, configMap, projected
	spec := dropped(14, 15, 23, 26, 34).with(1, volume).with(2, container).with(20, container)                   // securityContext, imagePullSecrets, hostAliases, dnsConfig, ephemeralContainers
	status := dropped(5, 6, 12, 13, 16).with(2, conditions).with(8, state).with(10, state)                       // addresses, ephemeralContainerStatuses
	pod := dropped().with(objectMetadata, meta).with(objectSpec, spec).with(objectStatus, status)
	node := dropped().with(objectMetadata, meta).with(objectStatus, dropped(8)) // images
	w.kinds = map[string]*message{"Pod": pod, "PodList": dropped().with(listItems, pod), "Node": node, "NodeList": dropped().with(listItems, node)}
	w.shared, w.specless = spec.with(specNode, gone), pod.with(objectSpec, gone)
	return w
}()

// inUnknown returns the message in which an object is.
func inUnknown(object *message) *message { return dropped().with(unknownRaw, object) }

// TrimNode takes from a Node what nobody here reads.
func TrimNode(n *corev1.Node) { n.ManagedFields, n.Status.Images = nil, nil }

// WireReader reads Pods, Nodes and NodeClaims that the API server sends, and what else a decoder reads. Most of a pod
// is read by nobody: taking that away before the object is made takes a small part of the time and the memory.
type WireReader struct {
	runtime.Decoder
	// Pods trims the pods that are read, and remembers specs, so that those of a workload are read once.
	Pods *PodTrimmer
}

var scratch = sync.Pool{New: func() any { return new([]byte) }} //nolint:gochecknoglobals // memory, not state

// Decode reads an object. A pod is trimmed, and for reading only.
func (r WireReader) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	body, isWire := bytes.CutPrefix(data, wirePrefix)
	if !isWire {
		if claim := readClaim(data); claim != nil && into == nil {
			kind := karpenterv1.GroupVersion.WithKind("NodeClaim")
			return claim, &kind, nil
		}
		return r.trim(r.Decoder.Decode(data, defaults, into))
	}
	buffer := scratch.Get().(*[]byte) // objects keep nothing of what they are read from
	defer scratch.Put(buffer)
	meta, _ := find(body, unknownType)
	name, _ := find(meta, typeKind)
	lean := wire.kinds[string(name)]
	if lean == nil {
		return r.Decoder.Decode(data, defaults, into)
	}
	if version, _ := find(meta, typeVersion); into == nil && string(version) == corev1.SchemeGroupVersion.Version {
		if o := r.readOne(string(name), body, buffer); o != nil {
			kind := corev1.SchemeGroupVersion.WithKind(string(name))
			return o, &kind, nil
		}
	}
	if trimmed, ok := inUnknown(lean).appendTrimmed(append((*buffer)[:0], wirePrefix...), body); ok {
		*buffer, data = trimmed, trimmed
	}
	return r.trim(r.Decoder.Decode(data, defaults, into))
}

// readOne reads a Pod or a Node; nil: it is neither, or not understood. Its kind is known, so that nobody need look for
// it, and its bytes need not be copied to where a decoder expects them.
func (r WireReader) readOne(kind string, body []byte, buffer *[]byte) runtime.Object {
	object, objects := find(body, unknownRaw)
	if objects != 1 {
		return nil
	}
	switch kind {
	case "Pod":
		return r.readPod(object, buffer)
	case "Node":
		trimmed, ok := wire.kinds[kind].appendTrimmed((*buffer)[:0], object)
		*buffer = trimmed
		if node := (&corev1.Node{}); ok && node.Unmarshal(trimmed) == nil {
			return node
		}
	}
	return nil
}

// readPod reads and trims a Pod; nil: it is not understood. A spec that was read before is not read again.
func (r WireReader) readPod(object []byte, buffer *[]byte) runtime.Object {
	lean, shared := wire.kinds["Pod"], sharedSpecOf(object, (*buffer)[:0])
	if shared.wire != nil && r.Pods.know(&shared) {
		lean = wire.specless
	}
	trimmed, ok := lean.appendTrimmed(shared.wire, object)
	*buffer = trimmed
	pod := &corev1.Pod{}
	if !ok || pod.Unmarshal(trimmed[len(shared.wire):]) != nil {
		return nil
	}
	if shared.wire == nil {
		r.Pods.Trim(pod)
	} else {
		r.Pods.trimShared(pod, &shared)
	}
	return pod
}

// EventReader reads watch events. The object of an event is a part of what the event is read from: it is copied when it
// is read itself, which the decoder of a watch does next.
type EventReader struct{ runtime.Serializer }

// Decode reads an event, and what else a serializer reads.
func (r EventReader) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if event, is := into.(*metav1.WatchEvent); is {
		if what, object := splitEvent(data); object != nil {
			*event = metav1.WatchEvent{Type: string(what), Object: runtime.RawExtension{Raw: object}}
			return event, defaults, nil
		}
	}
	return r.Serializer.Decode(data, defaults, into)
}

// Parts of a watch event in JSON, as the API server writes it.
var (
	eventStart  = []byte(`{"type":"`)   //nolint:gochecknoglobals // a constant that Go cannot spell
	eventMiddle = []byte(`","object":`) //nolint:gochecknoglobals // likewise
)

// splitEvent returns what a watch event says, and the object in it; nil: it is not written as the API server does.
func splitEvent(data []byte) (what, object []byte) {
	if rest, isJSON := bytes.CutPrefix(data, eventStart); isJSON {
		if what, object, _ = bytes.Cut(rest, eventMiddle); bytes.IndexByte(what, '"') >= 0 || bytes.IndexByte(what, '\\') >= 0 {
			return nil, nil
		}
		object, isJSON = bytes.CutSuffix(object, []byte("}"))
		if !isJSON {
			return nil, nil
		}
		return what, object
	}
	what, _ = find(data, eventType)
	in, n := find(data, eventObject)
	object, raws := find(in, extensionRaw)
	if n != 1 || raws != 1 {
		return nil, nil
	}
	return what, object
}

// trim trims the pods that were read.
func (r WireReader) trim(o runtime.Object, kind *schema.GroupVersionKind, err error) (runtime.Object, *schema.GroupVersionKind, error) {
	switch o := o.(type) {
	case *corev1.Pod:
		r.Pods.Trim(o)
	case *corev1.PodList:
		for i := range o.Items {
			r.Pods.Trim(&o.Items[i])
		}
	}
	return o, kind, err
}

// sharedSpec is what a pod's spec has in common with those of other pods.
type sharedSpec struct {
	// wire is that in Protobuf; nil: it is not understood.
	wire []byte
	// spec is the same, read and trimmed; nil: it was not read yet.
	spec *corev1.PodSpec
	node string
}

// sharedSpecOf returns what a pod shares. It is appended to a buffer.
func sharedSpecOf(pod, buffer []byte) sharedSpec {
	spec, specs := find(pod, objectSpec)
	node, nodes := find(spec, specNode)
	alike, ok := wire.shared.appendTrimmed(buffer, spec)
	if specs != 1 || nodes > 1 || !ok {
		return sharedSpec{}
	}
	return sharedSpec{wire: alike, node: string(node)}
}

// claimStart begins every NodeClaim in a watch event: the API server writes custom resources with sorted keys.
var claimStart = []byte(`{"apiVersion":"` + karpenterv1.GroupVersion.String() + `","kind":"NodeClaim",`) //nolint:gochecknoglobals // a constant that Go cannot spell

// readClaim reads a NodeClaim from JSON; nil: it is none. Its kind is known, and need not be looked for in all of it.
func readClaim(data []byte) *karpenterv1.NodeClaim {
	if !bytes.HasPrefix(data, claimStart) {
		return nil
	}
	claim := &karpenterv1.NodeClaim{}
	if json.Unmarshal(data, claim) != nil {
		return nil
	}
	claim.APIVersion, claim.Kind = "", "" // as the decoders of typed clients leave it
	return claim
}

// find returns the value of a field of a message, and how often it has it.
func find(data []byte, wanted protowire.Number) (value []byte, n int) {
	for len(data) > 0 {
		number, kind, size := protowire.ConsumeTag(data)
		if size < 0 {
			return value, n
		}
		length := protowire.ConsumeFieldValue(number, kind, data[size:])
		if length < 0 {
			return value, n
		}
		if number == wanted {
			value, _ = protowire.ConsumeBytes(data[size:])
			n++
		}
		data = data[size+length:]
	}
	return value, n
}

// appendTrimmed appends a message without what is trimmed; not ok: it is none.
func (m *message) appendTrimmed(to, data []byte) (trimmed []byte, ok bool) {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return to, false
		}
		size := protowire.ConsumeFieldValue(number, kind, data[n:])
		if size < 0 {
			return to, false
		}
		field := m.field(number)
		switch {
		case field == nil:
			to = append(to, data[:n+size]...)
		case field != gone && kind == protowire.BytesType:
			value, _ := protowire.ConsumeBytes(data[n:])
			if to, ok = field.appendField(to, data[:n], value); !ok {
				return to, false
			}
		}
		data = data[n+size:]
	}
	return to, true
}

// appendField appends a trimmed message after its tag and its length.
func (m *message) appendField(to, tag, data []byte) (trimmed []byte, ok bool) {
	before := len(to)
	to = append(to, tag...)
	at := len(to)
	to, ok = m.appendTrimmed(to, data)
	if !m.leaves(to[at:]) {
		return to[:before], ok
	}
	length := uint64(len(to) - at)
	size := protowire.SizeVarint(length)
	for range size {
		to = append(to, 0)
	}
	copy(to[at+size:], to[at:at+int(length)])
	protowire.AppendVarint(to[at:at], length)
	return to, ok
}
