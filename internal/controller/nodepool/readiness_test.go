package nodepool

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// TestTheLogSaysOnceWhyAClassCannotBeUsed judges one class again and again, as it changes.
func TestTheLogSaysOnceWhyAClassCannotBeUsed(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	c := &Controllers{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.MessageKey) {
			return slog.Attr{}
		}
		return a
	}}))}
	np := &karpenterv1.NodePool{}
	np.Name = "default"
	np.Spec.Template.Spec.NodeClassRef = &karpenterv1.NodeClassReference{Kind: "EC2NodeClass", Name: "web"}
	condition := func(conditionType, status, reason, message string) any {
		return map[string]any{"type": conditionType, "status": status, "reason": reason, "message": message}
	}
	class := func(conditions ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": conditions}}}
	}
	judge := func(class *unstructured.Unstructured, message string) {
		_, reason, said := classReady(class)
		if class == nil {
			said = message
		}
		c.warn(np, class, reason, said)
	}
	subnets := class(condition("AMIsReady", "True", "AMIsReady", ""), condition("SubnetsReady", "False", "SubnetsNotFound", "no subnets found"), condition("ValidationSucceeded", "False", "DependenciesNotReady", "SubnetsReady"), condition("Ready", "False", "UnhealthyDependents", "SubnetsReady=False"))
	ready := class(condition("Ready", "True", "Ready", ""))
	judge(nil, "there is no EC2NodeClass web")
	judge(nil, "there is no EC2NodeClass web")
	judge(class(), "")
	judge(subnets, "")
	judge(subnets, "")
	judge(ready, "")
	judge(subnets, "")
	c.forgetReadiness("default")
	judge(subnets, "")
	const prefix = "level=WARN NodePool.name=default EC2NodeClass.name=web reason="
	again := prefix + `UnhealthyDependents error="SubnetsReady (SubnetsNotFound): no subnets found"` + "\n"
	want := prefix + `NodeClassNotFound error="there is no EC2NodeClass web"` + "\n" + again + again + again
	if diff := cmp.Diff(want, log.String()); diff != "" {
		t.Errorf("the log (-want +got):\n%s", diff)
	}
}
