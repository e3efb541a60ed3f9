package translate

import (
	"bytes"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// message says, by field number, which fields of a Protobuf message are trimmed: dropped where there is nothing, and
// messages themselves where there is something. Fields that it does not name stay, those of later versions included.
type message map[protowire.Number]message

// dropped returns a message without some fields.
func dropped(fields ...protowire.Number) message {
	m := message{}
	for _, number := range fields {
		m[number] = nil
	}
	return m
}

// with adds a field that is trimmed itself.
func (m message) with(number protowire.Number, field message) message {
	m[number] = field
	return m
}

const (
	objectMetadata, objectSpec, objectStatus protowire.Number = 1, 2, 3
	// listItems are the items of every list.
	listItems protowire.Number = 2
	// unknownType and unknownRaw are fields of runtime.Unknown, in which every object is; typeKind is one of its type.
	unknownType, unknownRaw, typeKind protowire.Number = 1, 2, 2
)

// wirePrefix begins every object in Protobuf.
var wirePrefix = []byte{'k', '8', 's', 0} //nolint:gochecknoglobals // a constant that Go cannot spell

// wireKinds are the messages of the kinds that are trimmed, and of their lists. The numbers are those of the API's
// generated.proto; what is dropped is what TrimPod and TrimNode take away.
var wireKinds = func() map[string]message { //nolint:gochecknoglobals // a constant that Go cannot spell
	meta := dropped(17)                                                                              // managedFields
	container := dropped(2, 3, 4, 5, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22)       // all but name, ports and resources
	status := dropped(2, 3, 6, 7, 8, 12, 13)                                                         // state, lastState, image, imageID, containerID, volumeMounts, user
	volume := message{}.with(2, dropped(6, 16, 19, 26))                                              // secret, downwardAPI, configMap, projected
	spec := dropped(14, 15, 23, 26, 34).with(1, volume).with(2, container).with(20, container)       // securityContext, imagePullSecrets, hostAliases, dnsConfig, ephemeralContainers
	podStatus := dropped(5, 6, 12, 13, 16).with(8, status).with(10, status)                          // addresses, ephemeralContainerStatuses
	pod := message{}.with(objectMetadata, meta).with(objectSpec, spec).with(objectStatus, podStatus) //
	node := message{}.with(objectMetadata, meta).with(objectStatus, dropped(8))                      // images
	return map[string]message{"Pod": pod, "PodList": message{}.with(listItems, pod), "Node": node, "NodeList": message{}.with(listItems, node)}
}()

// TrimNode takes from a Node what nobody here reads.
func TrimNode(n *corev1.Node) { n.ManagedFields, n.Status.Images = nil, nil }

// WireReader reads Pods, Nodes and NodeClaims that the API server sends, and what else a decoder reads. Most of a pod
// is read by nobody: taking that away before the object is made takes a small part of the time and the memory.
type WireReader struct{ runtime.Decoder }

var scratch = sync.Pool{New: func() any { return new([]byte) }} //nolint:gochecknoglobals // memory, not state

// Decode reads an object.
func (r WireReader) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if !bytes.HasPrefix(data, wirePrefix) {
		if claim := readClaim(data); claim != nil && into == nil {
			kind := karpenterv1.GroupVersion.WithKind("NodeClaim")
			return claim, &kind, nil
		}
		return r.Decoder.Decode(data, defaults, into)
	}
	buffer := scratch.Get().(*[]byte)
	defer scratch.Put(buffer)
	if trimmed, ok := trimWire((*buffer)[:0], data); ok {
		*buffer, data = trimmed, trimmed // objects keep nothing of what they are read from
	}
	return r.Decoder.Decode(data, defaults, into)
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

// trimWire appends a trimmed object; not ok: it is of no kind that is trimmed, or not understood.
func trimWire(to, data []byte) (trimmed []byte, ok bool) {
	body := data[len(wirePrefix):]
	kind := wireKinds[string(find(find(body, unknownType), typeKind))]
	if kind == nil {
		return to, false
	}
	return message{}.with(unknownRaw, kind).appendTrimmed(append(to, wirePrefix...), body)
}

// find returns the value of a field of a message; nil: it has none.
func find(data []byte, wanted protowire.Number) []byte {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return nil
		}
		size := protowire.ConsumeFieldValue(number, kind, data[n:])
		if size < 0 {
			return nil
		}
		if number == wanted && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(data[n:])
			return value
		}
		data = data[n+size:]
	}
	return nil
}

// appendTrimmed appends a message without what is trimmed; not ok: it is none.
func (m message) appendTrimmed(to, data []byte) (trimmed []byte, ok bool) {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return to, false
		}
		size := protowire.ConsumeFieldValue(number, kind, data[n:])
		if size < 0 {
			return to, false
		}
		field, named := m[number]
		switch {
		case !named:
			to = append(to, data[:n+size]...)
		case field != nil && kind == protowire.BytesType:
			value, _ := protowire.ConsumeBytes(data[n:])
			if to, ok = field.appendField(append(to, data[:n]...), value); !ok {
				return to, false
			}
		}
		data = data[n+size:]
	}
	return to, true
}

// appendField appends a trimmed message after its length.
func (m message) appendField(to, data []byte) (trimmed []byte, ok bool) {
	at := len(to)
	to, ok = m.appendTrimmed(to, data)
	length := uint64(len(to) - at)
	size := protowire.SizeVarint(length)
	for range size {
		to = append(to, 0)
	}
	copy(to[at+size:], to[at:at+int(length)])
	protowire.AppendVarint(to[at:at], length)
	return to, ok
}
