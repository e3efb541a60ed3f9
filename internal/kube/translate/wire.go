package translate

import (
	"bytes"
	"maps"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// message says which fields of a Protobuf message are trimmed. Fields that it does not name stay, those of later
// versions included.
type message struct {
	// fields are dropped where there is nil, and messages themselves where there is something.
	fields map[protowire.Number]*message
	// needs is a field without which nothing of the message is left; 0: none is needed.
	needs protowire.Number
}

// dropped returns a message without some fields.
func dropped(fields ...protowire.Number) *message {
	m := &message{fields: map[protowire.Number]*message{}}
	for _, number := range fields {
		m.fields[number] = nil
	}
	return m
}

// with returns a message with another field that is trimmed itself; nil: it is dropped.
func (m *message) with(number protowire.Number, field *message) *message {
	m = &message{maps.Clone(m.fields), m.needs}
	m.fields[number] = field
	return m
}

const (
	objectMetadata, objectSpec, objectStatus protowire.Number = 1, 2, 3
	// listItems are the items of every list.
	listItems protowire.Number = 2
	// specNode is the name of the node in the spec of a pod; volumeSource is what a volume is.
	specNode, volumeSource protowire.Number = 10, 2
	// unknownType and unknownRaw are fields of runtime.Unknown, in which every object is; typeKind is one of its type.
	unknownType, unknownRaw, typeKind protowire.Number = 1, 2, 2
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
	meta := dropped(17)                                                                                   // managedFields
	container := dropped(2, 3, 4, 5, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22)            // all but name, ports and resources
	state := dropped(2, 3, 6, 7, 8, 12, 13)                                                               // state, lastState, image, imageID, containerID, volumeMounts, user
	volume := &message{map[protowire.Number]*message{volumeSource: dropped(6, 16, 19, 26)}, volumeSource} // secret, downwardAPI, configMap, projected
	spec := dropped(14, 15, 23, 26, 34).with(1, volume).with(2, container).with(20, container)            // securityContext, imagePullSecrets, hostAliases, dnsConfig, ephemeralContainers
	status := dropped(5, 6, 12, 13, 16).with(8, state).with(10, state)                                    // addresses, ephemeralContainerStatuses
	pod := dropped().with(objectMetadata, meta).with(objectSpec, spec).with(objectStatus, status)
	node := dropped().with(objectMetadata, meta).with(objectStatus, dropped(8)) // images
	w.kinds = map[string]*message{"Pod": inUnknown(pod), "PodList": inUnknown(dropped().with(listItems, pod)), "Node": inUnknown(node), "NodeList": inUnknown(dropped().with(listItems, node))}
	w.shared, w.specless = spec.with(specNode, nil), inUnknown(pod.with(objectSpec, nil))
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
	var shared sharedSpec
	if lean == wire.kinds["Pod"] && into == nil {
		if shared = sharedSpecOf(body, (*buffer)[:0]); r.Pods.know(&shared) {
			lean = wire.specless
		}
	}
	if trimmed, ok := lean.appendTrimmed(append(shared.wire, wirePrefix...), body); ok {
		*buffer, data = trimmed, trimmed[len(shared.wire):]
	} else if shared.spec != nil {
		shared = sharedSpec{}
	}
	o, kind, err := r.Decoder.Decode(data, defaults, into)
	if pod, ok := o.(*corev1.Pod); ok && err == nil && shared.wire != nil {
		r.Pods.trimShared(pod, &shared)
		return o, kind, nil
	}
	return r.trim(o, kind, err)
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

// sharedSpecOf returns what the pod in a message shares. It is appended to a buffer.
func sharedSpecOf(body, buffer []byte) sharedSpec {
	pod, pods := find(body, unknownRaw)
	spec, specs := find(pod, objectSpec)
	node, nodes := find(spec, specNode)
	alike, ok := wire.shared.appendTrimmed(buffer, spec)
	if pods != 1 || specs != 1 || nodes > 1 || !ok {
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
		field, named := m.fields[number]
		switch {
		case !named:
			to = append(to, data[:n+size]...)
		case field != nil && kind == protowire.BytesType:
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
	if m.needs != 0 {
		if needed, _ := find(to[at:], m.needs); len(needed) == 0 {
			return to[:before], ok
		}
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
