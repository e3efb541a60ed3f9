package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cli/demo"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// patience bounds the wait for the API server to know the roles.
const patience = 90 * time.Second

// controllerUser and controllerGroups are who the controller is to the API server.
const controllerUser = "system:serviceaccount:kube-system:dovetail"

var controllerGroups = []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"}

// request is what an authorizer is asked. No namespace: all of them, or an object that is in none.
// No name: any object.
type request struct {
	verb, group, resource, namespace, name string // resource with its subresource: pods/exec
	path                                   string // instead of a resource
}

func (r request) String() string {
	if r.path != "" {
		return r.verb + " " + r.path
	}
	return fmt.Sprintf("%s %s.%s %s/%s", r.verb, r.resource, r.group, r.namespace, r.name)
}

// granted is a rule and where it holds; no namespace: everywhere.
type granted struct {
	namespace string
	rule      rbacv1.PolicyRule
}

// allows reports whether one of the rights allows the request, by RBAC's reading of rules.
func allows(rights []granted, r request) bool {
	return slices.ContainsFunc(rights, func(g granted) bool {
		if r.path != "" {
			return g.namespace == "" && has(g.rule.Verbs, r.verb) && slices.ContainsFunc(g.rule.NonResourceURLs, func(url string) bool {
				prefix, wild := strings.CutSuffix(url, "*")
				return url == r.path || wild && strings.HasPrefix(r.path, prefix)
			})
		}
		_, sub, _ := strings.Cut(r.resource, "/")
		return (g.namespace == "" || g.namespace == r.namespace) && has(g.rule.Verbs, r.verb) && has(g.rule.APIGroups, r.group) &&
			(has(g.rule.Resources, r.resource) || sub != "" && slices.Contains(g.rule.Resources, "*/"+sub)) &&
			(len(g.rule.ResourceNames) == 0 || slices.Contains(g.rule.ResourceNames, r.name))
	})
}

func has(list []string, value string) bool {
	return slices.Contains(list, "*") || slices.Contains(list, value)
}

// rightsIn returns what the manifests of a directory allow the controller's account.
func rightsIn(t *testing.T, dir string) []granted {
	t.Helper()
	return rightsOf(t, dir, "dovetail")
}

// rightsOf returns what the manifests of a directory allow an account of kube-system.
func rightsOf(t *testing.T, dir, account string) []granted {
	t.Helper()
	type role struct{ kind, namespace, name string }
	rules := map[role][]rbacv1.PolicyRule{}
	var bindings []rbacv1.RoleBinding // those without a namespace are of the cluster
	for _, o := range rbacObjects(t, dir) {
		switch o.GetKind() {
		case "ClusterRole":
			r := strict[rbacv1.ClusterRole](t, o)
			if r.AggregationRule != nil {
				t.Fatalf("ClusterRole %s aggregates others: this test cannot read what it allows", r.Name)
			}
			rules[role{"ClusterRole", "", r.Name}] = r.Rules
		case "Role":
			r := strict[rbacv1.Role](t, o)
			rules[role{"Role", r.Namespace, r.Name}] = r.Rules
		case "ClusterRoleBinding":
			b := strict[rbacv1.ClusterRoleBinding](t, o)
			bindings = append(bindings, rbacv1.RoleBinding{ObjectMeta: b.ObjectMeta, RoleRef: b.RoleRef, Subjects: b.Subjects})
		case "RoleBinding":
			bindings = append(bindings, *strict[rbacv1.RoleBinding](t, o))
		default:
			t.Fatalf("this test cannot read what %s %s allows", o.GetKind(), o.GetName())
		}
	}
	var rights []granted
	for _, b := range bindings {
		want := []rbacv1.Subject{{Kind: "ServiceAccount", Name: account, Namespace: "kube-system"}}
		if diff := cmp.Diff(want, b.Subjects); diff != "" {
			t.Errorf("binding %s is for somebody else (-want +got):\n%s", b.Name, diff)
		}
		of := role{b.RoleRef.Kind, "", b.RoleRef.Name}
		if of.kind == "Role" {
			of.namespace = b.Namespace
		}
		bound, known := rules[of]
		if !known {
			t.Fatalf("binding %s gives %s %s, which is not in %s: this test cannot read what it allows", b.Name, of.kind, of.name, dir)
		}
		for _, rule := range bound {
			rights = append(rights, granted{b.Namespace, rule})
		}
	}
	return rights
}

// rbacObjects returns what a directory has of the API group of RBAC.
func rbacObjects(t *testing.T, dir string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := demo.Manifests(os.DirFS(filepath.Join("..", "..", "deploy", "kubernetes", dir)))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GroupVersionKind().Group != rbacv1.GroupName
	})
}

// strict returns an object as its type; it has no other fields.
func strict[T any](t *testing.T, o *unstructured.Unstructured) *T {
	t.Helper()
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, into, true); err != nil {
		t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
	}
	return into
}

// capability is something from which more follows than the controller is for.
type capability struct {
	what     string
	requests []request
}

// each returns a request for each verb and resource.group, on any object of the namespace.
func each(verbs, namespace string, resources ...string) []request {
	var out []request
	for _, verb := range strings.Fields(verbs) {
		for _, resource := range resources {
			name, group, _ := strings.Cut(resource, ".")
			out = append(out, request{verb: verb, group: group, resource: name, namespace: namespace})
		}
	}
	return out
}

const writes = "create update patch delete deletecollection"

// capabilities are what nobody may do with the controller's token.
func capabilities() []capability {
	named := func(r request, name string) request { r.name = name; return r }
	var others []request // known objects of kube-system that the cluster's safety hangs on
	for _, verb := range strings.Fields("get update patch delete") {
		for _, name := range []string{"aws-auth", "extension-apiserver-authentication", "coredns", "kube-proxy"} {
			others = append(others, named(request{verb: verb, resource: "configmaps", namespace: "kube-system"}, name))
		}
	}
	var leases []request
	for _, verb := range strings.Fields("get update patch delete") {
		for _, name := range []string{"kube-scheduler", "kube-controller-manager", "cert-manager-controller"} {
			leases = append(leases, named(request{verb: verb, group: "coordination.k8s.io", resource: "leases", namespace: "kube-system"}, name))
		}
	}
	var makers []request // they make pods with any service account, and so with its rights
	for _, in := range []string{"kube-system", "default"} {
		makers = append(makers, each("create update patch", in, "pods", "replicationcontrollers", "podtemplates", "deployments.apps", "daemonsets.apps",
			"statefulsets.apps", "replicasets.apps", "jobs.batch", "cronjobs.batch", "controllerrevisions.apps")...)
		makers = append(makers, each("create", in, "bindings", "pods/binding")...)
	}
	return []capability{
		{"RBAC's, any other's and all future rights: a wildcard", []request{
			{verb: "*", group: "*", resource: "*"},
			{verb: "anything", group: "example.com", resource: "things"},
			{verb: "anything", group: "example.com", resource: "things", namespace: "kube-system"},
			{verb: "get", path: "/anything"},
		}},
		{"change who may do what", append(each(writes+" escalate bind", "kube-system", "roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io"),
			each(writes+" escalate bind", "", "clusterroles.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io")...)},
		{"act as somebody else", append(each("impersonate", "", "users", "groups", "uids.authentication.k8s.io", "userextras/scopes.authentication.k8s.io"),
			each("impersonate", "kube-system", "serviceaccounts")...)},
		{"change ConfigMaps of kube-system: on EKS, aws-auth says who is cluster-admin", append(others, each("get list watch "+writes, "kube-system", "configmaps")...)},
		{"read or write ConfigMaps of others", each("get list watch "+writes, "default", "configmaps")},
		{"take leases of others", append(leases, each("list watch "+writes, "default", "leases.coordination.k8s.io")...)},
		{"keep nodes alive or declare them dead", each("get "+writes, "kube-node-lease", "leases.coordination.k8s.io")},
		{"read secrets", append(each("get list watch "+writes, "kube-system", "secrets"), each("get list watch "+writes, "default", "secrets")...)},
		{"make tokens, or accounts to use", append(each("create", "kube-system", "serviceaccounts/token"), each(writes, "kube-system", "serviceaccounts")...)},
		{"make pods, which may use any service account, or have somebody make them", makers},
		{"run commands in pods, or reach into them", append(each("create get", "kube-system", "pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "services/proxy"),
			each("update patch", "kube-system", "pods/ephemeralcontainers", "pods/resize")...)},
		{"read the logs of others", each("get", "kube-system", "pods/log")},
		{"reach kubelets, which run commands without asking the API server", each("create get update patch", "", "nodes/proxy", "nodes/exec", "nodes/metrics", "nodes/log", "nodes/stats", "nodes/configz")},
		{"make nodes, or report for kubelets", append(each("create update", "", "nodes"), each("update patch", "", "nodes/status")...)},
		{"get certificates, which are identities", append(each(writes, "", "certificatesigningrequests.certificates.k8s.io", "clustertrustbundles.certificates.k8s.io"),
			append(each("update patch", "", "certificatesigningrequests/approval.certificates.k8s.io", "certificatesigningrequests/status.certificates.k8s.io"),
				each("approve sign attest", "", "signers.certificates.k8s.io")...)...)},
		{"see or change every request: admission", each(writes, "", "mutatingwebhookconfigurations.admissionregistration.k8s.io", "validatingwebhookconfigurations.admissionregistration.k8s.io",
			"validatingadmissionpolicies.admissionregistration.k8s.io", "validatingadmissionpolicybindings.admissionregistration.k8s.io",
			"mutatingadmissionpolicies.admissionregistration.k8s.io", "mutatingadmissionpolicybindings.admissionregistration.k8s.io")},
		{"answer for other APIs", append(each(writes, "", "apiservices.apiregistration.k8s.io"), each(writes, "", "customresourcedefinitions.apiextensions.k8s.io")...)},
		{"take traffic: Services, endpoints, routes", append(each(writes, "kube-system", "services", "endpoints", "endpointslices.discovery.k8s.io", "ingresses.networking.k8s.io", "networkpolicies.networking.k8s.io"),
			each("update patch", "kube-system", "services/status")...)},
		{"reach disks of others", append(each(writes, "", "persistentvolumes", "storageclasses.storage.k8s.io", "volumeattachments.storage.k8s.io", "csidrivers.storage.k8s.io"),
			each(writes, "default", "persistentvolumeclaims")...)},
		{"take protection away: namespaces, quotas, budgets, priorities", append(each(writes, "", "namespaces", "priorityclasses.scheduling.k8s.io", "runtimeclasses.node.k8s.io"),
			each(writes, "kube-system", "resourcequotas", "limitranges", "poddisruptionbudgets.policy")...)},
		{"change pods otherwise than by their status", each("update patch deletecollection", "kube-system", "pods")},
		{"remove everything of a kind at once", append(each("deletecollection", "", "nodes", "nodeclaims.karpenter.sh", "nodepools.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws"),
			each("create delete", "", "nodepools.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws")...)},
	}
}

// TestAStolenTokenGivesNoFurtherRights computes from deploy/kubernetes what somebody could do who has
// the controller's token: nothing from which more follows.
func TestAStolenTokenGivesNoFurtherRights(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{".", "optional", "legacy"} {
		rights := rightsIn(t, dir)
		for _, c := range capabilities() {
			for _, r := range c.requests {
				made := r.verb == "create" && (r.resource == "nodepools" || r.resource == "ec2nodeclasses")
				if dir == "legacy" && made {
					continue // what --legacy-apis is for; docs/reference/rights.md says what a thief makes of it
				}
				if allows(rights, r) {
					t.Errorf("deploy/kubernetes/%s lets a stolen token %s: %s", dir, c.what, r)
				}
			}
		}
	}
}

// TestAnObserverMayOnlyRead compares what --mode=observe needs with what the controller needs otherwise: the same
// reads, but for the leases of others and the address of the cluster's DNS, and a lease of its own.
func TestAnObserverMayOnlyRead(t *testing.T) {
	t.Parallel()
	want := []string{
		"kube-system: create leases.coordination.k8s.io", "kube-system: get leases.coordination.k8s.io karpenter-leader-election-observe",
		"kube-system: update leases.coordination.k8s.io karpenter-leader-election-observe",
	}
	var got []string
	for _, g := range rightsIn(t, ".") {
		for _, right := range singly(g) {
			_, verb, _ := strings.Cut(right, ": ")
			verb, _, _ = strings.Cut(verb, " ")
			if slices.Contains([]string{"get", "list", "watch"}, verb) && !strings.Contains(right, " leases.") && !strings.Contains(right, " services ") {
				want = append(want, right)
			}
		}
	}
	for _, g := range rightsOf(t, "observe", "dovetail-observe") {
		got = append(got, singly(g)...)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(slices.Compact(want), got); diff != "" {
		t.Errorf("deploy/kubernetes/observe (-reads of rbac.yaml +given):\n%s", diff)
	}
}

// TestEveryCapabilityWouldBeFound gives each forbidden right by itself and by wildcards, and
// expects that it is seen.
func TestEveryCapabilityWouldBeFound(t *testing.T) {
	t.Parallel()
	for _, c := range capabilities() {
		for _, r := range c.requests {
			exact := rbacv1.PolicyRule{Verbs: []string{r.verb}, APIGroups: []string{r.group}, Resources: []string{r.resource}}
			if r.path != "" {
				exact = rbacv1.PolicyRule{Verbs: []string{r.verb}, NonResourceURLs: []string{r.path}}
			}
			wild := rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, NonResourceURLs: []string{"*"}}
			for _, rule := range []rbacv1.PolicyRule{exact, wild} {
				if !allows([]granted{{"", rule}}, r) {
					t.Errorf("%s: %s is not seen in %v", c.what, r, rule)
				}
			}
		}
	}
}

// TestEveryRightHasItsReason compares docs/reference/rights.md with what the controller may do.
func TestEveryRightHasItsReason(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "rights.md"))
	if err != nil {
		t.Fatal(err)
	}
	var reasoned, given []string
	row := regexp.MustCompile("(?m)^\\| ([a-z-]+) \\| `([^`]+)`(?: `([^`]+)`)? \\| `([^`]+)` \\| [^|]+ \\| [^|]+ \\|$")
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		for _, verb := range strings.Fields(m[4]) {
			reasoned = append(reasoned, strings.TrimSpace(fmt.Sprintf("%s: %s %s %s", m[1], verb, m[2], m[3])))
		}
	}
	for _, g := range rightsIn(t, ".") {
		given = append(given, singly(g)...)
	}
	slices.Sort(reasoned)
	slices.Sort(given)
	if diff := cmp.Diff(reasoned, given); diff != "" {
		t.Errorf("docs/reference/rights.md and deploy/kubernetes/rbac.yaml (-reasoned +given):\n%s", diff)
	}
}

// singly returns a rule's rights one by one, as the reference writes them.
func singly(g granted) []string {
	scope, names := g.namespace, g.rule.ResourceNames
	if scope == "" {
		scope = "cluster"
	}
	if len(names) == 0 {
		names = []string{""}
	}
	var out []string
	for _, verb := range g.rule.Verbs {
		for _, group := range g.rule.APIGroups {
			for _, resource := range g.rule.Resources {
				resource, sub, _ := strings.Cut(resource, "/")
				if group != "" {
					resource += "." + group
				}
				if sub != "" {
					resource += "/" + sub
				}
				for _, name := range names {
					out = append(out, strings.TrimSpace(fmt.Sprintf("%s: %s %s %s", scope, verb, resource, name)))
				}
			}
		}
	}
	for _, url := range g.rule.NonResourceURLs {
		out = append(out, fmt.Sprintf("%s: %v %s", scope, g.rule.Verbs, url))
	}
	return out
}

// TestTheAPIServerAgrees asks a real API server what the controller's account may do: the same as
// was computed.
func TestTheAPIServerAgrees(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c, err := client.New(cluster.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := demo.Apply(t.Context(), c, rbacObjects(t, ".")...); err != nil {
		t.Fatal(err)
	}
	rights := rightsIn(t, ".")
	questions := []request{
		{verb: "get", group: "coordination.k8s.io", resource: "leases", namespace: "kube-system", name: "karpenter-leader-election"},
		{verb: "update", group: "coordination.k8s.io", resource: "leases", namespace: "kube-system", name: "karpenter-leader-election"},
		{verb: "update", group: "coordination.k8s.io", resource: "leases", namespace: "default", name: "karpenter-leader-election"},
		{verb: "get", resource: "services", namespace: "kube-system", name: "kube-dns"},
		{verb: "create", resource: "pods/eviction", namespace: "default", name: "web-1"},
		{verb: "list", resource: "pods"},
		{verb: "patch", resource: "pods/status", namespace: "default"},
		{verb: "patch", resource: "nodes"},
		{verb: "create", group: "karpenter.sh", resource: "nodeclaims"},
	}
	for _, c := range capabilities() {
		questions = append(questions, c.requests...)
	}
	allowed := 0
	testkit.Eventually(t, patience, func() error { // the authorizer learns of roles by watching
		if got := ask(t, c, questions[0]); !got {
			return fmt.Errorf("the API server does not know the roles yet")
		}
		return nil
	})
	for _, r := range questions {
		got, want := ask(t, c, r), allows(rights, r)
		if got != want {
			t.Errorf("%s: the API server says %t, computed was %t", r, got, want)
		}
		if got {
			allowed++
		}
	}
	if allowed < 7 {
		t.Errorf("the API server allows %d of what the controller needs", allowed)
	}
}

// ask returns whether the API server would allow the request to the controller's account.
func ask(t *testing.T, c client.Client, r request) bool {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: controllerUser, Groups: controllerGroups}}
	if r.path != "" {
		review.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Verb: r.verb, Path: r.path}
	} else {
		resource, sub, _ := strings.Cut(r.resource, "/")
		review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Verb: r.verb, Group: r.group, Resource: resource, Subresource: sub, Namespace: r.namespace, Name: r.name,
		}
	}
	if err := c.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}
