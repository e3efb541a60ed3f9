package doctor

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/checkup"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// pauses says what pauses disruption. What a controller's own settings say is not seen here.
func pauses(ctx context.Context, c client.Client) (found []Finding) {
	const check = "disruption"
	say := func(what, remedy string) {
		found = append(found, Finding{Check: check, Status: checkup.Warning, Found: "paused by " + what, Remedy: remedy})
	}
	var objects corev1.ConfigMapList
	if err := c.List(ctx, &objects, client.MatchingFields{"metadata.name": mirror.PauseConfigMap}); err != nil {
		found = append(found, Finding{Check: check, Status: checkup.Skipped, Found: "look for ConfigMap " + mirror.PauseConfigMap + ": " + err.Error()})
	}
	for i := range objects.Items {
		m := &objects.Items[i]
		say(translate.PausedBy("ConfigMap "+m.Namespace+"/"+m.Name, m.Data[mirror.PauseReasonKey]), "dovetail resume, if the controller is in that namespace")
	}
	pools := &unstructured.UnstructuredList{}
	pools.SetGroupVersionKind(karpenterv1.GroupVersion.WithKind("NodePoolList"))
	if err := c.List(ctx, pools); err != nil {
		return found // that NodePools are unknown is said already
	}
	for i := range pools.Items {
		np := &karpenterv1.NodePool{}
		np.Annotations = pools.Items[i].GetAnnotations()
		if why := translate.Paused(np); why != "" {
			say(strings.Join([]string{"NodePool", pools.Items[i].GetName() + ",", why}, " "), "dovetail resume "+pools.Items[i].GetName())
		}
	}
	return found
}
