package simulate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// Redact returns the objects, which have their kinds set, as trees in which every name
// that people chose is another: those of objects, of labels and taints that are nobody's
// standard, and the values of labels. What was equal stays equal, and what sorted before
// something sorts before it still, so that the same is decided about them. Numbers stay
// what they are, and so do the labels that say where and what a node is.
func Redact(objects []client.Object) ([]map[string]any, error) {
	trees := make([]map[string]any, len(objects))
	for i, o := range objects {
		b, err := json.Marshal(o)
		if err != nil {
			return nil, fmt.Errorf("redact %s: %w", o.GetName(), err)
		}
		dec := json.NewDecoder(strings.NewReader(string(b)))
		dec.UseNumber()
		if err := dec.Decode(&trees[i]); err != nil {
			return nil, fmt.Errorf("redact %s: %w", o.GetName(), err)
		}
	}
	r := &redactor{met: map[string]map[string]string{}}
	for _, t := range trees { // the first time to see which names there are
		r.object(t)
	}
	r.number()
	for _, t := range trees {
		r.object(t)
	}
	return trees, nil
}

// Classes of names: those of a class are equal or not among themselves. Nodes and claims
// are one, because they are sorted together.
const (
	ofNamespace = "namespace"
	ofPod       = "pod"
	ofNode      = "node"
	ofPool      = "pool"
	ofNodeClass = "class"
	ofVolume    = "volume"
	ofPVC       = "pvc"
	ofPV        = "pv"
	ofStorage   = "storage"
	ofRuntime   = "runtime"
	ofPodGroup  = "podgroup"
	ofBuffer    = "buffer"
	ofTemplate  = "template"
	ofHandle    = "handle"
	ofProvider  = "provider"
	ofOwner     = "owner"
	ofKey       = "key"
	ofValue     = "value"
	ofUID       = "uid"
	ofOther     = "object"
)

// redactor knows the names it met, by class, and what they become.
type redactor struct {
	met      map[string]map[string]string
	numbered bool
	// ephemeral are the claims of ephemeral volumes: their names are made of two others.
	ephemeral []ephemeral
}

type ephemeral struct{ claim, pod, volume string }

// name returns what a name of a class becomes.
func (r *redactor) name(class, name string) string {
	if name == "" {
		return ""
	}
	if r.numbered {
		return r.met[class][name]
	}
	if r.met[class] == nil {
		r.met[class] = map[string]string{}
	}
	r.met[class][name] = ""
	return name
}

// number gives each name that was met its new one, in the same order.
func (r *redactor) number() {
	for class, names := range r.met {
		sorted := make([]string, 0, len(names))
		for n := range names {
			sorted = append(sorted, n)
		}
		slices.Sort(sorted)
		width := len(strconv.Itoa(len(sorted)))
		for i, n := range sorted {
			names[n] = fmt.Sprintf("%s-%0*d", class, width, i+1)
		}
	}
	for _, e := range r.ephemeral {
		r.met[ofPVC][e.claim] = r.met[ofPod][e.pod] + "-" + r.met[ofVolume][e.volume]
	}
	r.numbered = true
}

// object renames what is in an object.
func (r *redactor) object(o map[string]any) {
	kind, _ := o["kind"].(string)
	meta := child(o, "metadata")
	delete(meta, "generateName")
	name := text(meta, "name")
	classes := map[string]string{
		"Namespace": ofNamespace, "Pod": ofPod, "Node": ofNode, "NodeClaim": ofNode, "CSINode": ofNode, "NodePool": ofPool,
		"PersistentVolumeClaim": ofPVC, "PersistentVolume": ofPV, "StorageClass": ofStorage, "RuntimeClass": ofRuntime,
		"PodGroup": ofPodGroup, "CapacityBuffer": ofBuffer,
		"PodTemplate": ofTemplate, "Deployment": ofTemplate, "ReplicaSet": ofTemplate, "StatefulSet": ofTemplate,
	}
	class := classes[kind]
	if class == "" {
		class = ofOther
	}
	r.rename(meta, "name", class)
	switch kind {
	case "Pod":
		r.pod(o, child(o, "spec"), name)
	case "PodTemplate":
		r.pod(o, child(child(o, "template"), "spec"), "")
	case "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet":
		r.pod(o, child(child(child(o, "spec"), "template"), "spec"), "")
		delete(child(o, "spec"), "serviceName")
	}
	r.tree(o)
}

// pod drops or renames what names there are in the spec of a pod, or of the template in an object;
// then there is no name.
func (r *redactor) pod(o, spec map[string]any, pod string) {
	for _, field := range []string{"serviceAccountName", "serviceAccount", "hostname", "subdomain", "priorityClassName"} {
		delete(spec, field)
	}
	for i, c := range slices.Concat(items(spec, "initContainers"), items(spec, "containers")) {
		c["name"] = "c" + strconv.Itoa(i)
		for _, port := range items(c, "ports") {
			delete(port, "name")
		}
	}
	for _, field := range []string{"initContainerStatuses", "containerStatuses"} {
		delete(child(o, "status"), field) // the names are others now
	}
	for _, v := range items(spec, "volumes") {
		if _, own := v["ephemeral"]; own && pod != "" && !r.numbered {
			e := ephemeral{pod + "-" + text(v, "name"), pod, text(v, "name")}
			r.name(ofPVC, e.claim)
			r.ephemeral = append(r.ephemeral, e)
		}
		r.rename(v, "name", ofVolume)
	}
}

// tree renames what is in a tree, wherever it stands.
func (r *redactor) tree(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			r.tree(e)
		}
	case map[string]any:
		for _, field := range []string{"message", "disruptedPods", "nodeID", "attachmentMetadata", "podCIDR", "podCIDRs"} {
			delete(v, field)
		}
		for field, class := range map[string]string{
			"namespace": ofNamespace, "nodeName": ofNode, "nominatedNodeName": ofNode, "claimName": ofPVC, "volumeName": ofPV,
			"persistentVolumeName": ofPV, "uid": ofUID, "storageClassName": ofStorage, "volumeHandle": ofHandle, "providerID": ofProvider,
			"runtimeClassName": ofRuntime, "podGroupName": ofPodGroup,
		} {
			r.rename(v, field, class)
		}
		if key := text(v, "topologyKey"); key != "" {
			v["topologyKey"] = r.key(key)
		}
		r.listed(v)
		for field, e := range v {
			if field == "labels" || field == "matchLabels" || field == "nodeSelector" {
				v[field] = r.labels(e)
				continue
			}
			r.tree(e)
		}
	}
}

// listed renames what stands in lists.
func (r *redactor) listed(v map[string]any) {
	for _, field := range []string{"matchExpressions", "requirements", "taints", "startupTaints", "tolerations", "matchLabelExpressions"} {
		for _, e := range items(v, field) {
			r.keyed(e)
		}
	}
	for _, e := range items(v, "matchFields") { // of nodes, and there is only their name
		r.list(e, "values", func(s string) string { return r.name(ofNode, s) })
	}
	r.list(v, "namespaces", func(s string) string { return r.name(ofNamespace, s) })
	for _, field := range []string{"matchLabelKeys", "mismatchLabelKeys", "topologyKeys"} {
		r.list(v, field, r.key)
	}
	for _, e := range items(v, "ownerReferences") {
		r.rename(e, "name", ofOwner)
	}
	for field, class := range map[string]string{"nodeClassRef": ofNodeClass, "claimRef": ofPVC, "podTemplateRef": ofTemplate, "scalableRef": ofTemplate} {
		r.rename(child(v, field), "name", class)
	}
	annotations := child(v, "annotations")
	r.rename(annotations, "volume.kubernetes.io/selected-node", ofNode)
}

// keyed renames key and values of one requirement, taint or toleration.
func (r *redactor) keyed(e map[string]any) {
	key := text(e, "key")
	if key == "" {
		return
	}
	e["key"] = r.key(key)
	if s := text(e, "value"); s != "" {
		e["value"] = r.value(key, s)
	}
	r.list(e, "values", func(s string) string { return r.value(key, s) })
}

func (r *redactor) labels(v any) any {
	old, ok := v.(map[string]any)
	if !ok {
		r.tree(v)
		return v
	}
	renamed := make(map[string]any, len(old))
	for k, e := range old {
		s, _ := e.(string)
		renamed[r.key(k)] = r.value(k, s)
	}
	return renamed
}

// key returns what a label key becomes: those of Kubernetes and its autoscalers stay.
func (r *redactor) key(key string) string {
	domain, _, ok := strings.Cut(key, "/")
	if ok && standard(domain) {
		return key
	}
	return r.name(ofKey, key)
}

func standard(domain string) bool {
	return strings.HasSuffix(domain, "kubernetes.io") || strings.HasSuffix(domain, "k8s.io") || strings.HasPrefix(domain, "karpenter.") ||
		strings.HasPrefix(domain, "topology.") || domain == "dovetail.sh"
}

// value returns what the value of a label becomes.
func (r *redactor) value(key, value string) string {
	domain, rest, _ := strings.Cut(key, "/")
	_, err := strconv.ParseInt(value, 10, 64)
	switch {
	case key == label.Hostname:
		return r.name(ofNode, value)
	case key == label.NodePool:
		return r.name(ofPool, value)
	case key == "kubernetes.io/metadata.name":
		return r.name(ofNamespace, value)
	case strings.HasSuffix(rest, "nodeclass"):
		return r.name(ofNodeClass, value)
	case err == nil, key == "kubernetes.io/arch", key == "kubernetes.io/os":
		return value
	case strings.HasPrefix(domain, "topology."), strings.HasPrefix(domain, "karpenter."), domain == "node.kubernetes.io", strings.HasPrefix(domain, "failure-domain."):
		return value
	}
	return r.name(ofValue, value)
}

func (r *redactor) rename(v map[string]any, field, class string) {
	if s := text(v, field); s != "" {
		v[field] = r.name(class, s)
	}
}

func (r *redactor) list(v map[string]any, field string, rename func(string) string) {
	list, _ := v[field].([]any)
	for i, e := range list {
		if s, ok := e.(string); ok {
			list[i] = rename(s)
		}
	}
}

func child(v map[string]any, field string) map[string]any {
	m, _ := v[field].(map[string]any)
	return m
}

func text(v map[string]any, field string) string {
	s, _ := v[field].(string)
	return s
}

func items(v map[string]any, field string) (maps []map[string]any) {
	list, _ := v[field].([]any)
	for _, e := range list {
		if m, ok := e.(map[string]any); ok {
			maps = append(maps, m)
		}
	}
	return maps
}
