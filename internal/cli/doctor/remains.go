package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/config/crd"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/checkup"
)

// migrateRemedy is the command that mends what remains of older definitions.
const migrateRemedy = "dovetail migrate crds"

// groups are those whose objects webhooks of older installations judge.
var groups = []string{"karpenter.sh", "karpenter.k8s.aws"} //nolint:gochecknoglobals // a constant that Go cannot spell

// pageOf is how many objects are asked for at once.
const pageOf = 500

// remains looks for what earlier installations have left in a cluster: conversion by a webhook,
// objects stored in older versions, and webhooks that judge objects.
func remains(ctx context.Context, c client.Client) []Finding {
	var found []Finding
	for _, d := range installed(ctx, c) {
		found = append(found, d.findings(ctx, c)...)
	}
	found = append(found, webhooks(ctx, c)...)
	if len(found) == 0 {
		return []Finding{{Check: "earlier installations", Status: checkup.OK, Found: "nothing remains of them"}}
	}
	return found
}

// definition is a definition of a kind, as it is installed.
type definition struct {
	*unstructured.Unstructured
	group, plural, kind, storage string
	stored                       []string
}

// installed returns those of our definitions that are installed.
func installed(ctx context.Context, c client.Client) (all []definition) {
	own, err := crd.Definitions()
	if err != nil {
		return nil
	}
	for _, want := range own {
		has := want.NewEmptyInstance().(*unstructured.Unstructured)
		if err := c.Get(ctx, client.ObjectKeyFromObject(want), has); err != nil {
			continue // that it is missing is said elsewhere
		}
		d := definition{Unstructured: has}
		d.group, _, _ = unstructured.NestedString(has.Object, "spec", "group")
		d.plural, _, _ = unstructured.NestedString(has.Object, "spec", "names", "plural")
		d.kind, _, _ = unstructured.NestedString(has.Object, "spec", "names", "kind")
		d.stored, _, _ = unstructured.NestedStringSlice(has.Object, "status", "storedVersions")
		versions, _, _ := unstructured.NestedSlice(has.Object, "spec", "versions")
		for _, v := range versions {
			if v, ok := v.(map[string]any); ok && v["storage"] == true {
				d.storage, _ = v["name"].(string)
			}
		}
		all = append(all, d)
	}
	return all
}

func (d *definition) byWebhook() bool {
	strategy, _, _ := unstructured.NestedString(d.Object, "spec", "conversion", "strategy")
	return strategy == "Webhook"
}

// findings says what of a definition is of older installations.
func (d *definition) findings(ctx context.Context, c client.Client) (found []Finding) {
	if d.byWebhook() {
		namespace, _, _ := unstructured.NestedString(d.Object, "spec", "conversion", "webhook", "clientConfig", "service", "namespace")
		name, _, _ := unstructured.NestedString(d.Object, "spec", "conversion", "webhook", "clientConfig", "service", "name")
		f := Finding{Check: "conversion of " + d.kind, Status: checkup.Warning, Found: "a webhook of an earlier installation converts it, which is not needed: Service " + namespace + "/" + name, Remedy: migrateRemedy}
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &corev1.Service{}); name != "" && apierrors.IsNotFound(err) {
			f.Status, f.Found = checkup.Failed, fmt.Sprintf("every read fails: the webhook that converts it is gone, Service %s/%s", namespace, name)
		}
		found = append(found, f)
	}
	if d.isStale() {
		found = append(found, Finding{
			Check: "stored versions of " + d.kind, Status: checkup.Warning, Remedy: migrateRemedy,
			Found: fmt.Sprintf("there may be objects stored as %s; %s is the version to store", strings.Join(d.older(), ", "), d.storage),
		})
	}
	return found
}

func (d *definition) older() []string {
	return slices.DeleteFunc(slices.Clone(d.stored), func(v string) bool { return v == d.storage })
}

func (d *definition) isStale() bool { return d.storage != "" && len(d.older()) > 0 }

// webhooks finds the configurations that have webhooks judge our kinds.
func webhooks(ctx context.Context, c client.Client) (found []Finding) {
	judged := func(kind, name string, rules []admissionv1.RuleWithOperations) {
		for _, r := range rules {
			if slices.ContainsFunc(r.APIGroups, func(g string) bool { return slices.Contains(groups, g) }) {
				found = append(found, Finding{
					Check: "webhook " + name, Status: checkup.Warning,
					Found:  "writes of " + strings.Join(r.Resources, ", ") + " are judged by a webhook of an earlier installation, and fail where it is gone",
					Remedy: fmt.Sprintf("kubectl delete %s %s", kind, name),
				})
				return
			}
		}
	}
	var validating admissionv1.ValidatingWebhookConfigurationList
	if err := c.List(ctx, &validating); err != nil {
		return []Finding{{Check: "webhooks", Status: checkup.Skipped, Found: err.Error()}}
	}
	for i := range validating.Items {
		var rules []admissionv1.RuleWithOperations
		for _, w := range validating.Items[i].Webhooks {
			rules = append(rules, w.Rules...)
		}
		judged("validatingwebhookconfiguration", validating.Items[i].Name, rules)
	}
	var mutating admissionv1.MutatingWebhookConfigurationList
	if err := c.List(ctx, &mutating); err != nil {
		return append(found, Finding{Check: "webhooks", Status: checkup.Skipped, Found: err.Error()})
	}
	for i := range mutating.Items {
		var rules []admissionv1.RuleWithOperations
		for _, w := range mutating.Items[i].Webhooks {
			rules = append(rules, w.Rules...)
		}
		judged("mutatingwebhookconfiguration", mutating.Items[i].Name, rules)
	}
	return found
}

// Migrate takes the webhooks out of the definitions, writes each object anew that may be stored in an
// older version, and then says in the definitions that no other version is stored. It may be repeated.
// What it has done it says by report.
func Migrate(ctx context.Context, config *rest.Config, report func(string)) error {
	c, err := client.New(config, client.Options{})
	if err != nil {
		return fmt.Errorf("reach the cluster at %s: %w", config.Host, err)
	}
	all := installed(ctx, c)
	if len(all) == 0 {
		return fmt.Errorf("no definitions at %s: dovetail crds | kubectl apply --server-side --force-conflicts -f -", config.Host)
	}
	for i := range all {
		if err := all[i].migrate(ctx, c, report); err != nil {
			return fmt.Errorf("migrate %s: %w", all[i].GetName(), err)
		}
	}
	return nil
}

func (d *definition) migrate(ctx context.Context, c client.Client, report func(string)) error {
	if d.byWebhook() {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"conversion":{"strategy":"None","webhook":null}}}`))
		if err := c.Patch(ctx, d.Unstructured, patch); err != nil {
			return err
		}
		report(d.GetName() + ": no webhook converts it any more")
	}
	if !d.isStale() {
		report(d.GetName() + ": stored as " + d.storage + " alone")
		return nil
	}
	n, err := d.rewrite(ctx, c)
	if err != nil {
		return err
	}
	patch := client.MergeFromWithOptions(d.DeepCopy(), client.MergeFromWithOptimisticLock{})
	if err := unstructured.SetNestedStringSlice(d.Object, []string{d.storage}, "status", "storedVersions"); err != nil {
		return err
	}
	if err := c.Status().Patch(ctx, d.Unstructured, patch); err != nil {
		return err
	}
	report(fmt.Sprintf("%s: %d objects written anew, stored as %s alone; was %s", d.GetName(), n, d.storage, strings.Join(d.stored, ", ")))
	return nil
}

// rewrite writes every object of the kind as it is, which stores it in the version to store.
func (d *definition) rewrite(ctx context.Context, c client.Client) (n int, err error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: d.group, Version: d.storage, Kind: d.kind + "List"})
	for next := ""; ; {
		if err := c.List(ctx, list, client.Limit(pageOf), client.Continue(next)); err != nil {
			return n, err
		}
		next = list.GetContinue()
		for i := range list.Items {
			o := &list.Items[i]
			err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
				err := c.Update(ctx, o)
				if apierrors.IsConflict(err) {
					if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
						return err
					}
				}
				return err
			})
			if client.IgnoreNotFound(err) != nil {
				return n, fmt.Errorf("write %s: %w", o.GetName(), err)
			}
			n++
		}
		if next == "" {
			return n, nil
		}
	}
}
