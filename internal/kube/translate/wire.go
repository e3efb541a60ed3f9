package translate

import (
	"bytes"
	"slices"
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
	// needs is a field without which nothing of the message is left; 0: none is needed. It must have a text that is read,
	// unless reads is nil.
	needs protowire.Number
	reads func(text []byte) bool
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
	return &message{fields, m.needs, m.reads}
}

// leaves reports whether something is left of the message if so much of it has been trimmed.
func (m *message) leaves(trimmed []byte) bool {
	if m.needs == 0 {
		return true
	}
	has, _ := find(trimmed, m.needs)
	if m.reads == nil {
		return len(has) > 0
	}
	return m.reads(has)
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
	// specNode is the name of the node in the spec of a pod; volumeSource is what a volume is, conditionType what a
	// condition, mapKey the key in an entry of every map.
	specNode, volumeSource, conditionType, mapKey protowire.Number = 10, 2, 1, 1
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
	// spec, meta and states are what pods share of their specs, of their metadata, and of what kubelets say that
	// containers have.
	spec, meta, states *message
	// without is a pod without what is known of it.
	without map[knownParts]*message
},
) {
	conditions := &message{needs: conditionType, reads: func(text []byte) bool { return slices.Contains(readConditions, corev1.PodConditionType(text)) }}
	annotation := &message{needs: mapKey, reads: func(text []byte) bool { return ReadsAnnotation(string(text)) }}
	meta := dropped(17)                                                                                          // managedFields
	container := dropped(2, 3, 4, 5, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22)                   // all but name, ports and resources
	state := dropped(2, 3, 6, 7, 8, 12, 13)                                                                      // state, lastState, image, imageID, containerID, volumeMounts, user
	volume := &message{fields: dropped().with(volumeSource, dropped(6, 16, 19, 26)).fields, needs: volumeSource} // secret, downwardAPI, configMap, projected
	spec := dropped(14, 15, 23, 26, 34).with(1, volume).with(2, container).with(20, container)                   // securityContext, imagePullSecrets, hostAliases, dnsConfig, ephemeralContainers
	status := dropped(5, 6, 12, 13, 16).with(2, conditions).with(8, state).with(10, state)                       // addresses, ephemeralContainerStatuses
	podMeta := meta.with(12, annotation)
	pod := dropped().with(objectMetadata, podMeta).with(objectSpec, spec).with(objectStatus, status)
	node := dropped().with(objectMetadata, meta).with(objectStatus, dropped(8)) // images
	w.kinds = map[string]*message{"Pod": pod, "PodList": dropped().with(listItems, pod), "Node": node, "NodeList": dropped().with(listItems, node)}
	has := dropped(2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 14, 15) // of a container: all but name, allocatedResources and resources
	w.spec = spec.with(specNode, gone)
	w.meta = dropped(1, 4, 5, 6, 7, 8, 9, 10, 17).with(12, annotation)                                // all but generateName, namespace, labels, annotations, ownerReferences and finalizers
	w.states = dropped(1, 2, 3, 4, 5, 6, 7, 9, 11, 12, 13, 14, 15, 16, 17).with(8, has).with(10, has) // containerStatuses and initContainerStatuses
	w.without = map[knownParts]*message{}
	for _, known := range []knownParts{{}, {spec: true}, {meta: true}, {spec: true, meta: true}, {spec: true, states: true}, {true, true, true}} {
		m := pod
		if known.spec {
			m = m.with(objectSpec, gone)
		}
		if known.meta {
			m = m.with(objectMetadata, dropped(2, 3, 11, 12, 13, 14, 17))
		}
		if known.states {
			m = m.with(objectStatus, status.with(8, gone).with(10, gone))
		}
		w.without[known] = m
	}
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
	// Pods trims the pods that are read, and remembers what those of a workload share, so that it is read once.
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

// readPod reads and trims a Pod; nil: it is not understood. What was read of another one before is not read again.
func (r WireReader) readPod(object []byte, buffer *[]byte) runtime.Object {
	parts, used := partsOf(object, (*buffer)[:0])
	if parts.spec != nil {
		r.Pods.know(&parts)
	}
	trimmed, ok := wire.without[parts.known].appendTrimmed(used, object)
	*buffer = trimmed
	pod := &corev1.Pod{ObjectMeta: parts.shared.meta}
	if !ok || pod.Unmarshal(trimmed[len(used):]) != nil {
		return nil
	}
	switch {
	case parts.spec == nil:
		r.Pods.Trim(pod)
	case parts.known.states && isResized(pod):
		return nil // the states count
	default:
		r.Pods.trimParts(pod, &parts)
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

// podParts are the parts of a pod that others may have as well.
type podParts struct {
	// spec, meta and states are in Protobuf. A nil spec: the pod is not understood.
	spec, meta, states []byte
	known              knownParts
	// shared has what is known.
	shared struct {
		spec *knownSpec
		meta metav1.ObjectMeta
	}
	node string
}

// knownParts says which parts were read before. With the states, the spec was, too.
type knownParts struct{ spec, meta, states bool }

// partsOf returns the parts of a pod. They are appended to a buffer.
func partsOf(pod, buffer []byte) (parts podParts, used []byte) {
	spec, specs := find(pod, objectSpec)
	meta, metas := find(pod, objectMetadata)
	status, statuses := find(pod, objectStatus)
	node, nodes := find(spec, specNode)
	if specs != 1 || metas != 1 || statuses > 1 || nodes > 1 {
		return podParts{}, buffer
	}
	used, understoodSpec := wire.spec.appendTrimmed(buffer, spec)
	endOfSpec := len(used)
	used, understoodMeta := wire.meta.appendTrimmed(used, meta)
	endOfMeta := len(used)
	used, understoodStates := wire.states.appendTrimmed(used, status)
	if !understoodSpec || !understoodMeta || !understoodStates {
		return podParts{}, used
	}
	return podParts{spec: used[:endOfSpec], meta: used[endOfSpec:endOfMeta], states: used[endOfMeta:], node: string(node)}, used
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
