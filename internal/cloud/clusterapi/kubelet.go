package clusterapi

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// podsUsual is how many pods a kubelet runs without an argument that says so.
const podsUsual = 110

func split(path string) []string { return strings.Split(path, ".") }

// kubelet is what a bootstrap template has the kubelets of its nodes do.
type kubelet struct {
	overhead amounts
	// pods is 0 if it does not say.
	pods int64
}

// readKubelet reads the arguments of the kubelet from a KubeadmConfigTemplate; of other kinds nothing is
// known. What cannot be read is left out: the nodes themselves will show it.
func readKubelet(template *unstructured.Unstructured) (k kubelet) {
	k.overhead = amounts{}
	if template == nil || template.GetKind() != "KubeadmConfigTemplate" {
		return k
	}
	args := kubeletArgs(fields(template.Object).at("spec", "template", "spec"))
	if q, err := resource.ParseQuantity(args["max-pods"]); err == nil && q.Sign() > 0 {
		k.pods = q.Value()
	}
	for _, arg := range []string{"kube-reserved", "system-reserved"} {
		reserved, err := pairs(args[arg])
		if err != nil {
			continue
		}
		for name, text := range reserved {
			k.add(corev1.ResourceName(name), text)
		}
	}
	for part := range strings.SplitSeq(args["eviction-hard"], ",") {
		if name, text, ok := strings.Cut(part, "<"); ok && name == "memory.available" {
			k.add(corev1.ResourceMemory, text)
		}
	}
	return k
}

func (k *kubelet) add(name corev1.ResourceName, text string) {
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Sign() < 0 {
		return
	}
	sum := k.overhead[name]
	sum.Add(q)
	k.overhead[name] = sum
}

// kubeletArgs returns the kubelet's arguments that a KubeadmConfig has: a list in v1beta2, a map before.
func kubeletArgs(spec fields) map[string]string {
	at := []string{"joinConfiguration", "nodeRegistration", "kubeletExtraArgs"}
	args := spec.texts(at...)
	for _, arg := range spec.list(at...) {
		args[arg.text("name")] = arg.text("value")
	}
	return args
}
