package clusterapi

import (
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

const (
	clusterNameLabel      = "cluster.x-k8s.io/cluster-name"
	clonedFromName        = "cluster.x-k8s.io/cloned-from-name"
	clonedFromGroupKind   = "cluster.x-k8s.io/cloned-from-groupkind"
	kindKubeadmConfig     = "KubeadmConfig"
	nodeLabelsArg         = "node-labels"
	templateSuffix        = "Template"
	oldKubeadmArgsVersion = "/v1beta1"
)

// clone returns the object that a template describes, owned by a Machine and of its name.
func clone(template, owner *unstructured.Unstructured, clusterName string) *unstructured.Unstructured {
	f := fields(template.Object)
	spec := runtime.DeepCopyJSON(f.at("spec", "template", "spec"))
	if spec == nil {
		spec = map[string]any{}
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetAPIVersion(template.GetAPIVersion())
	o.SetKind(strings.TrimSuffix(template.GetKind(), templateSuffix))
	o.SetNamespace(owner.GetNamespace())
	o.SetName(owner.GetName())
	labels, annotations := f.texts("spec", "template", "metadata", "labels"), f.texts("spec", "template", "metadata", "annotations")
	labels[clusterNameLabel] = clusterName
	annotations[clonedFromName] = template.GetName()
	annotations[clonedFromGroupKind] = template.GroupVersionKind().GroupKind().String()
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
	o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())})
	return o
}

// equip has the kubelet that kubeadm starts register its Node with the taints and labels of a request,
// so that no pod is bound before the Node is registered. Bootstrap providers other than kubeadm's have no
// common place for them.
func equip(config *unstructured.Unstructured, r *cloud.LaunchRequest) error {
	if config.GetKind() != kindKubeadmConfig {
		return nil
	}
	at := []string{"spec", "joinConfiguration", "nodeRegistration"}
	registration := fields(runtime.DeepCopyJSON(fields(config.Object).at(at...)))
	if registration == nil {
		registration = fields{}
	}
	registration["taints"] = withTaints(registration.list("taints"), r.Taints)
	if text := kubeletLabels(r.Labels); text != "" {
		args := map[string]string{nodeLabelsArg: text}
		had := kubeletArgs(fields(config.Object).at("spec"))
		if before := had[nodeLabelsArg]; before != "" {
			args[nodeLabelsArg] = before + "," + text
		}
		setKubeletArgs(registration, args, strings.HasSuffix(config.GetAPIVersion(), oldKubeadmArgsVersion))
	}
	if err := unstructured.SetNestedMap(config.Object, registration, at...); err != nil {
		return fmt.Errorf("write taints into %s: %w", config.GetKind(), err)
	}
	return nil
}

// withTaints returns taints in the form of a KubeadmConfig, those of a request after its own.
func withTaints(own []fields, more []cluster.Taint) []any {
	var all []any
	has := map[string]bool{}
	for _, t := range own {
		all = append(all, map[string]any(t))
		has[t.text("key")+" "+t.text("effect")] = true
	}
	for _, t := range more {
		if has[t.Key+" "+t.Effect] {
			continue
		}
		taint := map[string]any{"key": t.Key, "effect": t.Effect}
		if t.Value != "" {
			taint["value"] = t.Value
		}
		all = append(all, taint)
	}
	return all
}

// kubeletLabels returns the labels that a kubelet may give its own Node.
func kubeletLabels(labels map[string]string) string {
	var all []string
	for _, key := range sortedKeys(labels) {
		domain, _, _ := strings.Cut(key, "/")
		reserved := false
		for _, d := range []string{"kubernetes.io", "k8s.io"} {
			reserved = reserved || domain == d || strings.HasSuffix(domain, "."+d)
		}
		if !reserved {
			all = append(all, key+"="+labels[key])
		}
	}
	return strings.Join(all, ",")
}

// setKubeletArgs sets arguments of the kubelet: in a map as v1beta1 has it, else in a list.
func setKubeletArgs(registration fields, args map[string]string, isMap bool) {
	const key = "kubeletExtraArgs"
	if isMap {
		all := registration.texts(key)
		maps.Copy(all, args)
		m := map[string]any{}
		for name, value := range all {
			m[name] = value
		}
		registration[key] = m
		return
	}
	var all []any
	for _, arg := range registration.list(key) {
		if _, replaced := args[arg.text("name")]; !replaced {
			all = append(all, map[string]any(arg))
		}
	}
	for _, name := range sortedKeys(args) {
		all = append(all, map[string]any{"name": name, "value": args[name]})
	}
	registration[key] = all
}
