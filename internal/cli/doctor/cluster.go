package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/config/crd"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/checkup"
)

const (
	// patience is how long the API server may take to answer.
	patience = 10 * time.Second
	// minorOldest and minorNewest are the versions 1.x of Kubernetes that may do, and the
	// newest one that the tests run on.
	minorOldest, minorNewest = 29, 37
	// leaseName is the lease of whoever speaks Karpenter's API.
	leaseName = "karpenter-leader-election"
	// observerLeaseName is that of a controller that only observes.
	observerLeaseName = leaseName + "-observe"
)

// Cluster looks at a cluster by its API server. The providers are aws, clusterapi, kwok and remote.
func Cluster(ctx context.Context, config *rest.Config, providers []string, now time.Time) []Finding {
	config = rest.CopyConfig(config)
	config.Timeout = patience
	asked, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return []Finding{unreachable(err)}
	}
	version, err := asked.ServerVersion()
	if err != nil {
		return []Finding{unreachable(err)}
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		return []Finding{unreachable(err)}
	}
	found := []Finding{judgeVersion(version, config.Host)}
	found = append(found, definitions(ctx, c, providers)...)
	found = append(found, remains(ctx, c)...)
	found = append(found, others(ctx, c, now))
	found = append(found, pauses(ctx, c)...)
	for _, kind := range classKinds(providers) {
		found = append(found, classes(ctx, c, kind)...)
	}
	return found
}

func unreachable(err error) Finding {
	return Finding{Check: "Kubernetes", Status: checkup.Failed, Found: err.Error(), Remedy: "give --kubeconfig for a cluster that can be reached from here"}
}

// judgeVersion says whether the version of Kubernetes will do.
func judgeVersion(v *version.Info, host string) Finding {
	f := Finding{Check: "Kubernetes", Status: checkup.OK, Found: fmt.Sprintf("%s at %s", v.GitVersion, host)}
	minor, err := strconv.Atoi(strings.TrimSuffix(v.Minor, "+"))
	switch {
	case err != nil || v.Major != "1" || minor < minorOldest:
		f.Status, f.Remedy = checkup.Failed, fmt.Sprintf("upgrade it to 1.%d at least", minorOldest)
	case minor > minorNewest:
		f.Status, f.Remedy = checkup.Warning, fmt.Sprintf("1.%d is the newest one that this version was tried with", minorNewest)
	}
	return f
}

// definitions compares the definitions that are installed with ours. Those of other providers may be missing.
func definitions(ctx context.Context, c client.Client, providers []string) []Finding {
	const check, remedy = "definitions", "dovetail crds | kubectl apply --server-side --force-conflicts -f -"
	own, err := definitionsOf(providers)
	if err != nil {
		return []Finding{{Check: check, Status: checkup.Failed, Found: err.Error()}}
	}
	var missing, other, kinds []string
	for _, want := range own {
		has := want.NewEmptyInstance().(*unstructured.Unstructured)
		err := c.Get(ctx, client.ObjectKeyFromObject(want), has)
		kind := crd.Kind(want)
		kinds = append(kinds, kind)
		switch {
		case apierrors.IsNotFound(err):
			missing = append(missing, kind)
		case err != nil:
			return []Finding{{Check: check, Status: checkup.Skipped, Found: err.Error()}}
		case !crd.SameSchemas(want, has):
			other = append(other, kind)
		}
	}
	switch {
	case len(missing) > 0:
		return []Finding{{Check: check, Status: checkup.Failed, Found: "not installed: " + strings.Join(missing, ", "), Remedy: remedy}}
	case len(other) > 0:
		return []Finding{{Check: check, Status: checkup.Warning, Found: "of another version than this program: " + strings.Join(other, ", "), Remedy: remedy}}
	}
	return []Finding{{Check: check, Status: checkup.OK, Found: strings.Join(kinds, ", ")}}
}

// definitionsOf returns the definitions that this program has but those of other providers.
func definitionsOf(providers []string) ([]*unstructured.Unstructured, error) {
	groups := map[string]string{"aws": awsv1.Group, "clusterapi": clusterapiv1alpha1.Group, "kwok": kwokv1alpha1.Group}
	for _, provider := range providers {
		delete(groups, provider)
	}
	others := slices.Collect(maps.Values(groups))
	own, err := crd.Definitions()
	return slices.DeleteFunc(own, func(o *unstructured.Unstructured) bool {
		group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
		return slices.Contains(others, group)
	}), err
}

// holders says who holds a lease of an autoscaler of this API, in whatever namespace, and which of
// them only observe.
func holders(ctx context.Context, c client.Client, now time.Time) (holders, observers []string, err error) {
	var leases coordinationv1.LeaseList
	if err := c.List(ctx, &leases); err != nil {
		return nil, nil, err
	}
	for i := range leases.Items {
		l := &leases.Items[i]
		s := &l.Spec
		if l.Name != leaseName && l.Name != observerLeaseName || s.HolderIdentity == nil || *s.HolderIdentity == "" || s.RenewTime == nil || s.LeaseDurationSeconds == nil {
			continue
		}
		if !now.Before(s.RenewTime.Add(time.Duration(*s.LeaseDurationSeconds) * time.Second)) {
			continue
		}
		if l.Name == leaseName {
			holders = append(holders, fmt.Sprintf("%s holds lease %s/%s", *s.HolderIdentity, l.Namespace, l.Name))
		} else {
			observers = append(observers, fmt.Sprintf("%s in namespace %s only observes (--mode=observe): it launches and removes no node", *s.HolderIdentity, l.Namespace))
		}
	}
	slices.Sort(holders)
	slices.Sort(observers)
	return holders, observers, nil
}

// others looks for an autoscaler that works already.
func others(ctx context.Context, c client.Client, now time.Time) Finding {
	const check = "other autoscalers"
	holders, observers, err := holders(ctx, c, now)
	if err != nil {
		return Finding{Check: check, Status: checkup.Skipped, Found: err.Error()}
	}
	switch found := strings.Join(append(slices.Clone(holders), observers...), "; "); {
	case len(holders) > 1:
		return Finding{Check: check, Status: checkup.Failed, Found: found, Remedy: "stop all but one: they launch nodes for the same pods, and remove each other's instances"}
	case len(holders) == 1:
		return Finding{Check: check, Status: checkup.Warning, Found: found, Remedy: "unless that is Dovetail itself, stop it first: two would launch nodes for the same pods"}
	}
	return Finding{Check: check, Status: checkup.OK, Found: strings.Join(append([]string{"nobody holds a lease " + leaseName}, observers...), "; ")}
}

// classKinds returns the kinds of node class whose status says what is wrong.
func classKinds(providers []string) (kinds []schema.GroupVersionKind) {
	for _, provider := range providers {
		switch provider {
		case "aws":
			kinds = append(kinds, awsv1.GroupVersion.WithKind("EC2NodeClass"))
		case "clusterapi":
			kinds = append(kinds, clusterapiv1alpha1.GroupVersion.WithKind(clusterapiv1alpha1.Kind))
		}
	}
	return kinds
}

// classes says of each node class of a kind that is not ready why.
func classes(ctx context.Context, c client.Client, kind schema.GroupVersionKind) []Finding {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := c.List(ctx, list); err != nil {
		if isUnserved(err) {
			return nil // that the definition is missing is said already
		}
		return []Finding{{Check: kind.Kind, Status: checkup.Skipped, Found: err.Error()}}
	}
	var found []Finding
	for i := range list.Items {
		found = append(found, judgeClass(&list.Items[i]))
	}
	slices.SortFunc(found, func(a, b Finding) int { return strings.Compare(a.Check, b.Check) })
	return found
}

func judgeClass(class *unstructured.Unstructured) Finding {
	f := Finding{Check: class.GetKind() + " " + class.GetName(), Status: checkup.Warning, Found: "nobody has judged it yet"}
	conditions, _, _ := unstructured.NestedSlice(class.Object, "status", "conditions")
	for _, c := range conditions {
		c, ok := c.(map[string]any)
		if !ok || c["type"] != "Ready" {
			continue
		}
		if c["status"] == "True" {
			return Finding{Check: f.Check, Status: checkup.OK, Found: "Ready"}
		}
		f.Found = fmt.Sprintf("not Ready: %v: %v", c["reason"], c["message"])
		f.Remedy = fmt.Sprintf("kubectl describe %s %s", strings.ToLower(class.GetKind()), class.GetName())
	}
	return f
}
