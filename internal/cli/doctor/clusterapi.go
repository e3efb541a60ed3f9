package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/checkup"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
)

const (
	managementCheck = "management cluster"
	rightsCheck     = "rights in it"
	heldCheck       = "Machines of no claim"

	coreGroup = "cluster.x-k8s.io"
	// rightsFile has the Role that the provider needs.
	rightsFile = "deploy/kubernetes/providers/clusterapi.yaml"
)

// ClusterAPI says what the provider for Cluster API lacks: c is the cluster of the nodes, management the one with their Machines.
// Rights are those of the account that reads.
func ClusterAPI(ctx context.Context, c client.Client, management Management) []Finding {
	p, err := clusterapi.New(c, clusterapi.Options{Management: management.Client, Namespace: management.Namespace, Now: time.Now})
	if err != nil {
		return []Finding{{Check: managementCheck, Status: checkup.Failed, Found: err.Error()}}
	}
	version, err := clusterapi.CoreVersion(p)
	if err != nil {
		f := Finding{Check: managementCheck, Status: checkup.Failed, Found: err.Error(), Remedy: "give --cluster-api-kubeconfig for a management cluster that can be reached from here"}
		if clusterapi.IsUnserved(err) {
			f.Remedy = "install Cluster API 1.10 or newer in it, or give --cluster-api-kubeconfig if it is another one"
		}
		return []Finding{f}
	}
	found := []Finding{{Check: managementCheck, Status: checkup.OK, Found: "Cluster, MachineDeployment and Machine of " + version}}
	needed := coreRights()
	var ofClasses []Finding
	var classes clusterapiv1alpha1.ClusterAPINodeClassList
	switch err := c.List(ctx, &classes); {
	case err != nil && !isUnserved(err): // that the definition is missing is said already
		ofClasses = append(ofClasses, Finding{Check: clusterapiv1alpha1.Kind, Status: checkup.Skipped, Found: err.Error()})
	case len(classes.Items) == 0:
		ofClasses = append(ofClasses, Finding{Check: clusterapiv1alpha1.Kind, Status: checkup.Warning, Found: "there is none, so no NodePool can have nodes of Cluster API", Remedy: "create one (docs/clusterapi.md)"})
	}
	for i := range classes.Items {
		class := &classes.Items[i]
		s, err := clusterapi.Examine(ctx, p, class)
		ofClasses = append(ofClasses, selected(class.Name, s, err)...)
		if err == nil {
			needed = append(needed, cloneRights(management.Client.RESTMapper(), s.Clones)...)
		}
	}
	found = append(found, rights(ctx, management, needed))
	found = append(found, ofClasses...)
	return append(found, orphans(ctx, c, management))
}

// right is something that the provider does with a resource of the management cluster.
type right struct{ group, resource, verb string }

func (r right) String() string { return r.verb + " " + r.resource }

// coreRights are those that the provider needs whatever the infrastructure is.
func coreRights() (all []right) {
	for _, of := range []struct {
		resource string
		verbs    []string
	}{
		{"clusters", []string{"get"}},
		{"machinedeployments", []string{"get", "list"}},
		{"machines", []string{"get", "list", "watch", "create", "patch", "delete"}},
	} {
		for _, verb := range of.verbs {
			all = append(all, right{coreGroup, of.resource, verb})
		}
	}
	return all
}

// cloneRights are those for templates and what is cloned from them. Kinds that are not served are named elsewhere.
func cloneRights(mapper meta.RESTMapper, clones map[schema.GroupKind]schema.GroupKind) (all []right) {
	add := func(kind schema.GroupKind, verbs ...string) {
		mapping, err := mapper.RESTMapping(kind)
		if err != nil {
			return
		}
		for _, verb := range verbs {
			all = append(all, right{kind.Group, mapping.Resource.Resource, verb})
		}
	}
	for template, clone := range clones {
		add(template, "get")
		add(clone, "get", "create")
	}
	return all
}

// rights asks the management cluster what the account may do.
func rights(ctx context.Context, management Management, needed []right) Finding {
	where := management.Namespace
	if where == "" {
		where = "all namespaces"
	}
	remedy := fmt.Sprintf("give the account the Role of %s in the namespace that has the Cluster, and that namespace as --cluster-api-namespace", rightsFile)
	slices.SortFunc(needed, func(a, b right) int {
		return cmp.Or(strings.Compare(a.group+a.resource, b.group+b.resource), strings.Compare(a.verb, b.verb))
	})
	needed = slices.Compact(needed)
	var missing []string
	for _, r := range needed {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: management.Namespace, Group: r.group, Resource: r.resource, Verb: r.verb},
		}}
		if err := management.Client.Create(ctx, review); err != nil {
			return Finding{Check: rightsCheck, Status: checkup.Skipped, Found: err.Error()}
		}
		if !review.Status.Allowed {
			missing = append(missing, r.String())
		}
	}
	if len(missing) > 0 {
		return Finding{Check: rightsCheck, Status: checkup.Failed, Found: "not allowed in " + where + ": " + strings.Join(missing, ", "), Remedy: remedy}
	}
	return Finding{Check: rightsCheck, Status: checkup.OK, Found: fmt.Sprintf("all %d are allowed in %s", len(needed), where)}
}

// selected says what a class would launch from.
func selected(name string, s *clusterapi.Examined, err error) []Finding {
	check := "MachineDeployments of " + name
	switch {
	case err != nil:
		return []Finding{{Check: check, Status: checkup.Failed, Found: err.Error()}}
	case len(s.Selected) == 0:
		return []Finding{{
			Check: check, Status: checkup.Failed, Found: "the class selects none",
			Remedy: fmt.Sprintf("give those that nodes are to be launched from the label %s, or set spec.scalableResourceSelector", clusterapi.MemberLabel),
		}}
	}
	say := func(status checkup.Status, names []string, what, remedy string) Finding {
		return Finding{Check: check, Status: status, Found: what + ": " + some(names), Remedy: remedy}
	}
	found := []Finding{say(checkup.OK, s.Selected, fmt.Sprintf("the class selects %d", len(s.Selected)), "")}
	if len(s.Notes) > 0 {
		found = append(found, Finding{Check: check, Status: checkup.Warning, Found: strings.Join(s.Notes[:min(len(s.Notes), namedMost)], "; "), Remedy: "docs/clusterapi.md has what a MachineDeployment says of its nodes"})
	}
	if len(s.Unpriced) > 0 {
		found = append(found, say(checkup.Warning, s.Unpriced, "no price, so consolidation leaves their nodes alone",
			"set the annotation cluster.x-k8s.io/machine-current-price; prices of --cluster-api-prices-file and of NodeOverlays are not seen here"))
	}
	if len(s.Zoneless) > 0 {
		found = append(found, say(checkup.Warning, s.Zoneless, "no failure domain, so pods that are spread over zones or want one have none there",
			"set spec.template.spec.failureDomain, or topology.kubernetes.io/zone in the annotation capacity.cluster-autoscaler.kubernetes.io/labels"))
	}
	return found
}

// some returns the first of several names.
func some(names []string) string {
	text := strings.Join(names[:min(len(names), namedMost)], ", ")
	if more := len(names) - namedMost; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// orphans looks for Machines that wait for us when somebody deletes them, and have no NodeClaim.
func orphans(ctx context.Context, c client.Client, management Management) Finding {
	skipped := func(err error) Finding {
		return Finding{Check: heldCheck, Status: checkup.Skipped, Found: err.Error()}
	}
	system := &corev1.Namespace{}
	if err := c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		return skipped(fmt.Errorf("read the UID of the cluster: %w", err))
	}
	held, err := clusterapi.ReadHeld(ctx, management.Client, management.Namespace, string(system.UID))
	if err != nil {
		return skipped(err)
	}
	var claims karpenterv1.NodeClaimList
	if err := c.List(ctx, &claims); err != nil && !isUnserved(err) {
		return skipped(err)
	}
	uids, ids := map[types.UID]bool{}, map[string]bool{}
	for i := range claims.Items {
		uids[claims.Items[i].UID] = true
		if id := claims.Items[i].Status.ProviderID; id != "" {
			ids[id] = true
		}
	}
	names := held.Without(uids, ids)
	if len(names) > 0 {
		return Finding{
			Check: heldCheck, Status: checkup.Warning, Found: fmt.Sprintf("%d have no NodeClaim, and a deletion of them waits for the controller: %s", len(names), some(names)),
			Remedy: "the controller ends them when it runs; without it, dovetail uninstall takes the hook off",
		}
	}
	return Finding{Check: heldCheck, Status: checkup.OK, Found: fmt.Sprintf("each of %d Machines has its NodeClaim", held.Len())}
}
