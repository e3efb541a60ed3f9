package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/checkup"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	// namedMost bounds how many pods a finding names.
	namedMost = 5
	// autoscalerPatience is how long the API server may take to list pods.
	autoscalerPatience = time.Minute
)

// ClusterAutoscaler says what is lost or fought over when Cluster Autoscaler's node groups become NodePools: it
// protects pods that nothing protects here.
func ClusterAutoscaler(ctx context.Context, config *rest.Config) []Finding {
	config = rest.CopyConfig(config)
	config.Timeout = autoscalerPatience
	c, err := client.New(config, client.Options{})
	if err != nil {
		return []Finding{unreachable(err)}
	}
	return autoscalerFindings(ctx, c)
}

func autoscalerFindings(ctx context.Context, c client.Reader) []Finding {
	var pods corev1.PodList
	var pdbs policyv1.PodDisruptionBudgetList
	var deployments appsv1.DeploymentList
	for _, list := range []client.ObjectList{&pods, &pdbs, &deployments} {
		if err := c.List(ctx, list); err != nil {
			return []Finding{{Check: "Cluster Autoscaler", Status: checkup.Skipped, Found: err.Error(), Remedy: "the account needs list on pods, poddisruptionbudgets and deployments"}}
		}
	}
	var status corev1.ConfigMap
	err := c.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "cluster-autoscaler-status"}, &status)
	found := []Finding{whichAutoscaler(deployments.Items, &status, err)}
	return append(found, protectedPods(pods.Items, pdbs.Items, deployments.Items)...)
}

// whichAutoscaler says which Cluster Autoscaler there is.
func whichAutoscaler(deployments []appsv1.Deployment, status *corev1.ConfigMap, err error) Finding {
	f := Finding{Check: "Cluster Autoscaler", Status: checkup.Warning, Found: "no Deployment runs an image named cluster-autoscaler"}
	for i := range deployments {
		d := &deployments[i]
		for _, container := range d.Spec.Template.Spec.Containers {
			if !strings.Contains(container.Image, "cluster-autoscaler") {
				continue
			}
			version := "without a tag"
			if at := strings.LastIndex(container.Image, ":"); at > strings.LastIndex(container.Image, "/") {
				version = container.Image[at+1:]
			}
			f.Status, f.Found = checkup.OK, fmt.Sprintf("%s/%s, version %s, %d ready", d.Namespace, d.Name, version, d.Status.ReadyReplicas)
		}
	}
	switch {
	case apierrors.IsNotFound(err):
		f.Found += "; there is no ConfigMap kube-system/cluster-autoscaler-status"
	case err == nil:
		f.Found += "; status of " + status.Annotations["cluster-autoscaler.kubernetes.io/last-updated"]
	}
	if f.Status == checkup.Warning {
		f.Remedy = "if it runs elsewhere, as in EKS Auto Mode or by another name, cap its groups before NodePools launch for the same pods"
	}
	return f
}

// protectedPods says which pods Cluster Autoscaler leaves alone for reasons that do not count here, and which go
// down together when their node is drained.
func protectedPods(pods []corev1.Pod, pdbs []policyv1.PodDisruptionBudget, deployments []appsv1.Deployment) []Finding {
	var safe, local, bare, system, uncovered []string
	for i := range pods {
		p := &pods[i]
		if !translate.Active(p) || translate.OwnedByDaemonSet(p) || translate.Mirror(p) || p.Spec.NodeName == "" {
			continue
		}
		name, has := p.Namespace+"/"+p.Name, covered(p, pdbs)
		if p.Annotations[translate.SafeToEvictAnnotationKey] == "false" {
			safe = append(safe, name)
		}
		if slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
			return v.EmptyDir != nil && v.EmptyDir.Medium != corev1.StorageMediumMemory || v.HostPath != nil
		}) {
			local = append(local, name)
		}
		switch {
		case metav1.GetControllerOf(p) == nil:
			bare = append(bare, name)
		case p.Namespace == metav1.NamespaceSystem && !has:
			system = append(system, name)
		case !has:
			uncovered = append(uncovered, name)
		}
	}
	var single []string
	for i := range deployments {
		if d := &deployments[i]; d.Spec.Replicas == nil || *d.Spec.Replicas == 1 {
			single = append(single, d.Namespace+"/"+d.Name)
		}
	}
	return []Finding{
		listing("safe-to-evict=false", checkup.OK, safe, "", "these pods block voluntary disruption here, too, unless --cluster-autoscaler-annotations=false"),
		listing("pods with local storage", checkup.Warning, local, "set karpenter.sh/do-not-disrupt on those that must not lose it", "Cluster Autoscaler does not evict them by default; they are evicted here, and lose it"),
		listing("pods without a controller", checkup.Warning, bare, "set karpenter.sh/do-not-disrupt on them, or give them a controller", "Cluster Autoscaler does not evict them; they are evicted here, and nobody makes them anew"),
		listing("kube-system without PDB", checkup.Warning, system, "give them PodDisruptionBudgets", "Cluster Autoscaler does not evict them by default; they are evicted here"),
		listing("pods without PDB", checkup.Warning, uncovered, "give their workloads PodDisruptionBudgets before nodes are drained", "all of a workload on one node go down together"),
		listing("single replicas", checkup.Warning, single, "two replicas and a PodDisruptionBudget keep them up while nodes are drained", "these Deployments are down while their pod moves"),
	}
}

func covered(p *corev1.Pod, pdbs []policyv1.PodDisruptionBudget) bool {
	return slices.ContainsFunc(pdbs, func(b policyv1.PodDisruptionBudget) bool {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		return err == nil && b.Namespace == p.Namespace && selector.Matches(labels.Set(p.Labels))
	})
}

// listing is a finding about pods; without any it is ok.
func listing(check string, status checkup.Status, names []string, remedy, meaning string) Finding {
	if len(names) == 0 {
		return Finding{Check: check, Status: checkup.OK, Found: "none"}
	}
	slices.Sort(names)
	shown := strings.Join(names[:min(namedMost, len(names))], ", ")
	if more := len(names) - namedMost; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return Finding{Check: check, Status: status, Found: fmt.Sprintf("%d: %s; %s", len(names), shown, meaning), Remedy: remedy}
}
