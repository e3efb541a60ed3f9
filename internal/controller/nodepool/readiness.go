package nodepool

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

const (
	// reasonUnjudged is that of a class that nobody has judged yet.
	reasonUnjudged = "NodeClassReadinessUnknown"
	// reasonDependencies is that of a class's condition which is False because others are.
	reasonDependencies = "DependenciesNotReady"
)

// reconcileReadiness says in the pool's condition whether its node class can be used.
func (c *Controllers) reconcileReadiness(ctx context.Context, np *karpenterv1.NodePool) error {
	class, err := c.class(ctx, np)
	if err != nil {
		return err
	}
	status, reason, message := classReady(class)
	if class == nil {
		ref := np.Spec.Template.Spec.NodeClassRef
		message = fmt.Sprintf("there is no %s %s", ref.Kind, ref.Name)
	}
	c.warn(np, class, reason, message)
	return apply.EditPool(ctx, c.Client, np, func() {
		conditions := condition.ForNodePool(np)
		if status {
			conditions.SetTrue(karpenterv1.ConditionTypeNodeClassReady, c.Now())
			return
		}
		conditions.SetFalse(karpenterv1.ConditionTypeNodeClassReady, reason, message, c.Now())
	})
}

// classReady reports whether a class, nil if it is missing, can be used, and if not why.
func classReady(class *unstructured.Unstructured) (ready bool, reason, message string) {
	if class == nil {
		return false, "NodeClassNotFound", ""
	}
	if class.GetDeletionTimestamp() != nil {
		return false, "NodeClassTerminating", "the node class is being deleted"
	}
	// A status with other fields has no conditions, which is as good as unknown.
	conditions, _, _ := unstructured.NestedSlice(class.Object, "status", "conditions")
	for _, entry := range conditions {
		c, _ := entry.(map[string]any)
		if c["type"] != karpenterv1.ConditionTypeReady {
			continue
		}
		switch reason, _ := c["reason"].(string); c["status"] {
		case string(metav1.ConditionTrue):
			return true, "", ""
		case string(metav1.ConditionFalse):
			message, _ := c["message"].(string)
			return false, cmp.Or(reason, "NodeClassNotReady"), message
		}
	}
	return false, reasonUnjudged, "the node class does not say whether it is ready"
}

// warn writes one line when a pool's node class cannot be used, and another when that has another
// reason. A class that is still to be judged is none.
func (c *Controllers) warn(np *karpenterv1.NodePool, class *unstructured.Unstructured, reason, message string) {
	why := ""
	if reason != "" && reason != reasonUnjudged {
		why = cmp.Or(faults(class), message)
	}
	c.mu.Lock()
	was := c.warned[np.Name]
	if c.warned == nil {
		c.warned = map[string]string{}
	}
	c.warned[np.Name] = why
	c.mu.Unlock()
	if why == "" || why == was {
		return
	}
	ref := np.Spec.Template.Spec.NodeClassRef
	c.Log.Warn("nodepool launches nothing: its node class is not ready", observe.Named("NodePool", np.Name), observe.Named(ref.Kind, ref.Name), slog.String("reason", reason), slog.String("error", why))
}

// forgetReadiness forgets a pool that is gone.
func (c *Controllers) forgetReadiness(pool string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.warned, pool)
}

// faults returns which conditions of a class are False and why, but for the one that sums them up.
func faults(class *unstructured.Unstructured) string {
	if class == nil {
		return ""
	}
	var list []string
	conditions, _, _ := unstructured.NestedSlice(class.Object, "status", "conditions")
	for _, entry := range conditions {
		c, _ := entry.(map[string]any)
		if c["type"] != karpenterv1.ConditionTypeReady && c["reason"] != reasonDependencies && c["status"] == string(metav1.ConditionFalse) {
			list = append(list, fmt.Sprintf("%v (%v): %v", c["type"], c["reason"], c["message"]))
		}
	}
	return strings.Join(list, "; ")
}
