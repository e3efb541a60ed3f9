package clusterapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
)

const (
	// controllerName is that of the loop that writes the status of classes.
	controllerName = "nodeclass.clusterapi"
	// classEvery is how often what a class selects is read again.
	classEvery = 30 * time.Second

	conditionReady      = "Ready"
	reasonReady         = "Ready"
	reasonNothingUsable = "NoMachineDeployment"
	reasonIncomplete    = "MachineDeploymentsLeftOut"
	reasonUnreachable   = "ManagementClusterUnavailable"

	// notesMax and messageMax bound the message of a condition.
	notesMax, messageMax = 10, 4096
)

// nothingUsable says why a listing has no instance types.
func nothingUsable(l *listing) string {
	if len(l.notes) == 0 {
		return fmt.Sprintf("it selects no %s: give one the label %s, or set spec.scalableResourceSelector", kindDeployment, MemberLabel)
	}
	return notes(l)
}

// notes returns what is wrong with MachineDeployments, as the message of a condition.
func notes(l *listing) string {
	text := strings.Join(l.notes[:min(len(l.notes), notesMax)], "; ")
	if more := len(l.notes) - notesMax; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text[:min(len(text), messageMax)]
}

// Register adds the loop that writes the status of classes to a manager.
func (p *Provider) Register(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).Named(controllerName).For(&clusterapiv1alpha1.ClusterAPINodeClass{}).
		WithOptions(controller.Options{NewQueue: loop.NewQueue}).Complete(reconcile.AsReconciler(mgr.GetClient(), &classLoop{p}))
	if err != nil {
		return fmt.Errorf("register %s: %w", controllerName, err)
	}
	return nil
}

// classLoop writes the status of classes.
type classLoop struct{ provider *Provider }

// Reconcile writes the status of one class.
func (l *classLoop) Reconcile(ctx context.Context, class *clusterapiv1alpha1.ClusterAPINodeClass) (reconcile.Result, error) {
	if class.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: classEvery}, l.provider.Refresh(ctx, class)
}

// Refresh writes the status of a class: whether it can be used, and what was learned from its nodes.
func (p *Provider) Refresh(ctx context.Context, class *clusterapiv1alpha1.ClusterAPINodeClass) error {
	was := class.DeepCopy()
	l, err := p.read(ctx, class)
	if err == nil && len(l.lacking) > 0 {
		if class.Status.Learned, err = p.learn(ctx, class, l.lacking); err == nil && !equality.Semantic.DeepEqual(class.Status.Learned, was.Status.Learned) {
			l, err = p.read(ctx, class)
		}
	}
	for _, c := range classConditions(l, err) {
		c.ObservedGeneration = class.Generation
		c.LastTransitionTime = metav1.NewTime(p.now())
		meta.SetStatusCondition(&class.Status.Conditions, c)
	}
	if equality.Semantic.DeepEqual(class.Status, was.Status) {
		return nil
	}
	if err := p.client.Status().Patch(ctx, class, client.MergeFrom(was)); err != nil {
		return fmt.Errorf("write the status of node class %s: %w", class.Name, err)
	}
	return nil
}

// classConditions returns what the conditions of a class say of what was read.
func classConditions(l *listing, err error) []metav1.Condition {
	ready := metav1.Condition{Type: conditionReady, Status: metav1.ConditionTrue, Reason: reasonReady}
	complete := metav1.Condition{Type: clusterapiv1alpha1.ConditionTypeCatalogComplete, Status: metav1.ConditionTrue, Reason: reasonReady}
	var unclear *unclearError
	switch {
	case errors.As(err, &unclear):
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, unclear.reason, unclear.message
		complete.Status, complete.Reason, complete.Message = ready.Status, ready.Reason, ready.Message
	case err != nil:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, reasonUnreachable, err.Error()
		complete.Status, complete.Reason, complete.Message = metav1.ConditionUnknown, ready.Reason, ready.Message
	case !l.usable():
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, reasonNothingUsable, nothingUsable(l)
		complete.Status, complete.Reason, complete.Message = ready.Status, ready.Reason, ready.Message
	case len(l.notes) > 0:
		complete.Status, complete.Reason, complete.Message = metav1.ConditionFalse, reasonIncomplete, notes(l)
	}
	return []metav1.Condition{ready, complete}
}
