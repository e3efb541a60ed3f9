// Package legacy is the loop that makes NodePools of Provisioners and EC2NodeClasses of AWSNodeTemplates,
// the kinds before v1beta1. What it makes belongs to the older object, and follows its changes; the
// condition Converted of that says what became of it. Why it is so: docs/adr/0008-older-apis.md.
package legacy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/convert"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

const (
	name   = "legacy"
	period = 15 * time.Second
	// OriginAnnotation names, on what was made, the object that it was made of.
	OriginAnnotation = "dovetail.sh/converted-from"
	// Condition says on an older object what became of it.
	Condition  = "Converted"
	fieldOwner = client.FieldOwner("dovetail-legacy")
	// messageMost bounds the message of the condition, in bytes.
	messageMost = 8 << 10
)

// kinds are the older kinds: node classes first, because NodePools refer to them.
var kinds = []schema.GroupVersionKind{ //nolint:gochecknoglobals // a constant that Go cannot spell
	{Group: "karpenter.k8s.aws", Version: "v1alpha1", Kind: "AWSNodeTemplate"},
	{Group: "karpenter.sh", Version: "v1alpha5", Kind: "Provisioner"},
}

// Loop is the loop. Its fields are set once, before Register.
type Loop struct {
	Client client.Client
	// Reader reads past the cache, which does not know the older kinds.
	Reader client.Reader
	// Class is the provider's default kind of node class.
	Class   schema.GroupVersionKind
	Now     func() time.Time
	Metrics *observe.Metrics
	Log     *slog.Logger
}

// Register adds the loop to a manager.
func (l *Loop) Register(mgr ctrl.Manager) error {
	if err := mgr.Add(l); err != nil {
		return fmt.Errorf("register %s: %w", name, err)
	}
	return nil
}

// Start looks at every period until the context is over.
func (l *Loop) Start(ctx context.Context) error { return loop.Run(ctx, l.Reconcile, nil) }

// Reconcile looks once.
func (l *Loop) Reconcile(ctx context.Context) (pause time.Duration) {
	end := l.Metrics.Reconcile(name, l.Now)
	err := l.Sweep(ctx)
	end(err)
	if err != nil && ctx.Err() == nil {
		l.Log.Error("could not convert objects of older versions, will try again", "error", err)
	}
	return period
}

// Sweep converts all objects of the older kinds.
func (l *Loop) Sweep(ctx context.Context) error {
	var errs []error
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := l.Reader.List(ctx, list)
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			continue // its definition is not installed
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("list %s: %w", kind.Kind, err))
		}
		for i := range list.Items {
			if list.Items[i].GetDeletionTimestamp() == nil {
				errs = append(errs, l.convert(ctx, &list.Items[i]))
			}
		}
	}
	return errors.Join(errs...)
}

// convert makes of an older object what it is in v1, and writes on it what came of that.
func (l *Loop) convert(ctx context.Context, old *unstructured.Unstructured) error {
	condition := metav1.Condition{Type: Condition, Status: metav1.ConditionTrue, Reason: "Converted", ObservedGeneration: old.GetGeneration()}
	result, err := convert.All([]convert.Object{{Content: old.Object}}, convert.Options{Class: l.Class})
	var said []string
	for _, n := range result.Notes {
		said = append(said, fmt.Sprintf("%s: %s: %s", n.Kind, n.Field, n.Text))
		if strings.Contains(n.Text, convert.NodeRolePlaceholder) {
			err = errors.New("spec.instanceProfile is not set: write an EC2NodeClass of that name with the role of the nodes, which dovetail convert --node-role prints")
		}
	}
	switch {
	case err != nil:
		condition.Status, condition.Reason = metav1.ConditionFalse, "Unreadable"
		said = append([]string{err.Error()}, said...)
	case result.Has(convert.Refused):
		condition.Status, condition.Reason = metav1.ConditionFalse, "Refused"
	default:
		for i := range result.Objects {
			made := &unstructured.Unstructured{Object: result.Objects[i].Content}
			taken, err := l.write(ctx, old, made)
			if err != nil && !apierrors.IsInvalid(err) {
				return err
			}
			what := made.GetKind() + " " + made.GetName()
			switch {
			case err != nil:
				condition.Status, condition.Reason = metav1.ConditionFalse, "Invalid"
				said = append([]string{err.Error()}, said...)
			case taken:
				condition.Status, condition.Reason = metav1.ConditionFalse, "NameTaken"
				said = append([]string{what + " is there already, and was not made of this: it is what counts"}, said...)
			default:
				said = append([]string{"is " + what + " now"}, said...)
			}
		}
	}
	condition.Message = strings.Join(said, "\n")
	if len(condition.Message) > messageMost {
		condition.Message = strings.ToValidUTF8(condition.Message[:messageMost], "") // without a part of a character
	}
	return l.report(ctx, old, condition)
}

// write creates or changes what was made. It leaves alone, and reports as taken, what was not made of
// the older object.
func (l *Loop) write(ctx context.Context, old, made *unstructured.Unstructured) (taken bool, err error) {
	origin := strings.ToLower(old.GetKind()) + "/" + old.GetName()
	has := &unstructured.Unstructured{}
	has.SetGroupVersionKind(made.GroupVersionKind())
	err = l.Reader.Get(ctx, client.ObjectKeyFromObject(made), has)
	switch {
	case err == nil && has.GetAnnotations()[OriginAnnotation] != origin:
		return true, nil
	case client.IgnoreNotFound(err) != nil:
		return false, fmt.Errorf("get %s %s: %w", made.GetKind(), made.GetName(), err)
	}
	annotations := made.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[OriginAnnotation] = origin
	made.SetAnnotations(annotations)
	made.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: old.GetAPIVersion(), Kind: old.GetKind(), Name: old.GetName(), UID: old.GetUID()}})
	return false, l.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(made), fieldOwner, client.ForceOwnership)
}

// report writes the condition on an older object, if it says something new.
func (l *Loop) report(ctx context.Context, old *unstructured.Unstructured, c metav1.Condition) error {
	var status struct {
		Conditions []metav1.Condition `json:"conditions,omitempty"`
	}
	had, _, _ := unstructured.NestedMap(old.Object, "status")
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(had, &status); err != nil {
		status.Conditions = nil // whoever wrote that, it is ours now
	}
	before := append([]metav1.Condition(nil), status.Conditions...)
	c.LastTransitionTime = metav1.NewTime(l.Now())
	meta.SetStatusCondition(&status.Conditions, c)
	if equality.Semantic.DeepEqual(before, status.Conditions) {
		return nil
	}
	patch := &unstructured.Unstructured{Object: map[string]any{}}
	patch.SetGroupVersionKind(old.GroupVersionKind())
	patch.SetName(old.GetName())
	now, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return err
	}
	base := patch.DeepCopy()
	patch.Object["status"] = now
	if err := l.Client.Status().Patch(ctx, patch, client.MergeFrom(base)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write status of %s %s: %w", old.GetKind(), old.GetName(), err)
	}
	return nil
}
