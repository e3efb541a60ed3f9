package simulate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/decision/redact"
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
	r := &redactor{Names: redact.New()}
	for _, t := range trees { // the first time to see which names there are
		r.object(t)
	}
	r.number()
	for _, t := range trees {
		r.object(t)
	}
	return trees, nil
}

// redactor knows the names that are in objects.
type redactor struct {
	*redact.Names
	numbered bool
	// ephemeral are the claims of ephemeral volumes: their names are made of two others.
	ephemeral []ephemeral
}

type ephemeral struct{ claim, pod, volume string }

// number gives each name that was met its new one, in the same order.
func (r *redactor) number() {
	r.Number()
	r.numbered = true
	for _, e := range r.ephemeral {
		r.Is(redact.PVC, e.claim, r.Name(redact.Pod, e.pod)+"-"+r.Name(redact.Volume, e.volume))
	}
}

// object renames what is in an object.
func (r *redactor) object(o map[string]any) {
	kind, _ := o["kind"].(string)
	meta := child(o, "metadata")
	delete(meta, "generateName")
	name := text(meta, "name")
	classes := map[string]redact.Class{
		"Namespace": redact.Namespace, "Pod": redact.Pod, "Node": redact.Node, "NodeClaim": redact.Node, "CSINode": redact.Node, "NodePool": redact.Pool,
		"PersistentVolumeClaim": redact.PVC, "PersistentVolume": redact.PV, "StorageClass": redact.Storage, "RuntimeClass": redact.Runtime,
		"PodGroup": redact.PodGroup, "CapacityBuffer": redact.Buffer,
		"PodTemplate": redact.Template, "Deployment": redact.Template, "ReplicaSet": redact.Template, "StatefulSet": redact.Template,
	}
	class := classes[kind]
	if class == "" {
		class = redact.Other
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
			r.Name(redact.PVC, e.claim)
			r.ephemeral = append(r.ephemeral, e)
		}
		r.rename(v, "name", redact.Volume)
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
		for field, class := range map[string]redact.Class{
			"namespace": redact.Namespace, "nodeName": redact.Node, "nominatedNodeName": redact.Node, "claimName": redact.PVC, "volumeName": redact.PV,
			"persistentVolumeName": redact.PV, "uid": redact.UID, "storageClassName": redact.Storage, "volumeHandle": redact.Handle, "providerID": redact.Provider,
			"runtimeClassName": redact.Runtime, "podGroupName": redact.PodGroup,
		} {
			r.rename(v, field, class)
		}
		if key := text(v, "topologyKey"); key != "" {
			v["topologyKey"] = r.Key(key)
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
		r.list(e, "values", func(s string) string { return r.Name(redact.Node, s) })
	}
	r.list(v, "namespaces", func(s string) string { return r.Name(redact.Namespace, s) })
	for _, field := range []string{"matchLabelKeys", "mismatchLabelKeys", "topologyKeys"} {
		r.list(v, field, r.Key)
	}
	for _, e := range items(v, "ownerReferences") {
		r.rename(e, "name", redact.Owner)
	}
	for field, class := range map[string]redact.Class{"nodeClassRef": redact.NodeClass, "claimRef": redact.PVC, "podTemplateRef": redact.Template, "scalableRef": redact.Template} {
		r.rename(child(v, field), "name", class)
	}
	annotations := child(v, "annotations")
	r.rename(annotations, "volume.kubernetes.io/selected-node", redact.Node)
}

// keyed renames key and values of one requirement, taint or toleration.
func (r *redactor) keyed(e map[string]any) {
	key := text(e, "key")
	if key == "" {
		return
	}
	e["key"] = r.Key(key)
	if s := text(e, "value"); s != "" {
		e["value"] = r.Value(key, s)
	}
	r.list(e, "values", func(s string) string { return r.Value(key, s) })
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
		renamed[r.Key(k)] = r.Value(k, s)
	}
	return renamed
}

func (r *redactor) rename(v map[string]any, field string, class redact.Class) {
	if s := text(v, field); s != "" {
		v[field] = r.Name(class, s)
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
