package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestMissingRightsAreNamed runs the controller with rights that lack two kinds and the lease. Each is
// one error in the log with the rule to add, /readyz says the same, and when they are granted the same
// process becomes ready.
func TestMissingRightsAreNamed(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	installDefinitions(t, c)
	kubeconfig := asInstalled(t, cluster, c)
	forKWOK := rbacv1.PolicyRule{
		APIGroups: []string{"karpenter.kwok.sh"}, Resources: []string{"kwoknodeclasses", "kwoknodeclasses/status"}, Verbs: []string{"get", "list", "watch", "patch"},
	}
	whole := change(t, c, &rbacv1.ClusterRole{}, "", func(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
		return append(without(rules, "limitranges", "runtimeclasses"), forKWOK)
	})
	ofLease := change(t, c, &rbacv1.Role{}, "kube-system", func(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule { return without(rules, "leases") })

	nodeLeases := rbacv1.Role{Rules: []rbacv1.PolicyRule{{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"*"}}}}
	nodeLeases.Namespace, nodeLeases.Name = "kube-node-lease", "kwok"
	binding := rbacv1.RoleBinding{
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "kwok"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "kube-system", Name: "dovetail"}},
	}
	binding.Namespace, binding.Name = "kube-node-lease", "kwok"
	for _, o := range []client.Object{&nodeLeases, &binding} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}

	p := controller(t, kubeconfig, "--leader-election-namespace", "kube-system")
	limitRanges := `add to the ClusterRole: {apiGroups: [""], resources: [limitranges], verbs: [get, list, watch]}`
	runtimeClasses := `add to the ClusterRole: {apiGroups: ["node.k8s.io"], resources: [runtimeclasses], verbs: [get, list, watch]}`
	lease := `add to the Role in kube-system: {apiGroups: ["coordination.k8s.io"], resources: [leases], resourceNames: [karpenter-leader-election], verbs: [get]}`
	awaitReady(t, p, http.StatusServiceUnavailable, "rights are missing: "+limitRanges+"; "+runtimeClasses)
	change(t, c, &rbacv1.ClusterRole{}, "", func([]rbacv1.PolicyRule) []rbacv1.PolicyRule { return append(whole, forKWOK) })
	awaitReady(t, p, http.StatusServiceUnavailable, "rights are missing: "+lease)
	change(t, c, &rbacv1.Role{}, "kube-system", func([]rbacv1.PolicyRule) []rbacv1.PolicyRule { return ofLease })
	awaitReady(t, p, http.StatusOK, "ok")

	var got []string
	for _, e := range p.errors() {
		got = append(got, e.Message+": "+e.Error)
	}
	slices.Sort(got)
	want := []string{"right is missing: " + limitRanges, "right is missing: " + runtimeClasses, "right is missing: " + lease}
	if !slices.Equal(got, want) {
		t.Errorf("the log has the errors\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if status := p.stop(); status != 0 {
		t.Errorf("exit status %d:\n%s", status, p)
	}
}

// without returns rules that allow nothing on the resources.
func without(rules []rbacv1.PolicyRule, resources ...string) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for _, rule := range rules {
		rule.Resources = slices.DeleteFunc(slices.Clone(rule.Resources), func(r string) bool { return slices.Contains(resources, r) })
		if len(rule.Resources) > 0 {
			out = append(out, rule)
		}
	}
	return out
}

// change gives the controller's role other rules, and returns those it had.
func change(t *testing.T, c client.Client, role client.Object, namespace string, to func([]rbacv1.PolicyRule) []rbacv1.PolicyRule) (had []rbacv1.PolicyRule) {
	t.Helper()
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "dovetail"}, role); err != nil {
		t.Fatal(err)
	}
	switch role := role.(type) {
	case *rbacv1.ClusterRole:
		had, role.Rules = role.Rules, to(role.Rules)
	case *rbacv1.Role:
		had, role.Rules = role.Rules, to(role.Rules)
	}
	if err := c.Update(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	return had
}

// awaitReady returns when /readyz answers so.
func awaitReady(t *testing.T, p *process, status int, says string) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		got, text, err := readyz(t.Context(), p)
		if err == nil && (got != status || strings.TrimSpace(text) != says) {
			err = fmt.Errorf("/readyz answers %d %s, want %d %s", got, text, status, says)
		}
		return err
	})
}

func readyz(ctx context.Context, p *process) (status int, text string, err error) {
	p.mu.Lock()
	started := slices.ContainsFunc(p.stdout, func(line string) bool { return strings.Contains(line, `"message":"started"`) })
	p.mu.Unlock()
	if !started {
		return 0, "", fmt.Errorf("it has not started")
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.address("health")+"/readyz", nil)
	if err != nil {
		return 0, "", err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close() //nolint:errcheck // it was read only
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body), err
}
