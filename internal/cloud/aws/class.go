package aws

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/convert"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
)

const (
	classController = "nodeclass"
	classesAtOnce   = 10
	// claimsAgain is when a class that is being deleted is reconciled again while claims use it.
	claimsAgain = 10 * time.Minute
)

// classReconciler keeps the status of classes.
type classReconciler struct {
	client          client.Client
	opts            *Options
	images          *images
	network         *network
	reservations    *reservations
	placementGroups *placementGroups
	profiles        *profiles
	templates       *templates
	validator       *validator
}

// register adds the loop that keeps the status of classes to a manager.
func (c *classReconciler) register(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).Named(classController).
		For(&awsv1.EC2NodeClass{}).
		Watches(&karpenterv1.NodeClaim{}, handler.EnqueueRequestsFromMapFunc(classOfGoneClaim)).
		WithOptions(controller.Options{MaxConcurrentReconciles: classesAtOnce, NewQueue: loop.NewQueue}).
		Complete(reconcile.Func(c.reconcile))
	if err != nil {
		return fmt.Errorf("register %s: %w", classController, err)
	}
	return nil
}

// classOfGoneClaim returns the class of a claim that is on its way out: the class may wait
// for that.
func classOfGoneClaim(_ context.Context, obj client.Object) []reconcile.Request {
	claim := obj.(*karpenterv1.NodeClaim)
	ref := claim.Spec.NodeClassRef
	if claim.DeletionTimestamp == nil || ref == nil || ref.Group != awsv1.Group {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: ref.Name}}}
}

// reconcile brings one class up to date.
func (c *classReconciler) reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	class := &awsv1.EC2NodeClass{}
	if err := c.client.Get(ctx, request.NamespacedName, class); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	convert.Class(class)
	if class.DeletionTimestamp != nil {
		return c.finalize(ctx, class)
	}
	if err := c.stamp(ctx, class); err != nil {
		return reconcile.Result{}, err
	}
	before := class.DeepCopy()
	again, err := c.resolve(ctx, class)
	if !reflect.DeepEqual(before.Status, class.Status) {
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if patchErr := c.client.Status().Patch(ctx, class, patch); client.IgnoreNotFound(patchErr) != nil {
			if apierrors.IsConflict(patchErr) {
				return reconcile.Result{RequeueAfter: time.Second}, nil
			}
			err = errors.Join(err, fmt.Errorf("write status of node class %s: %w", class.Name, patchErr))
		}
	}
	return reconcile.Result{RequeueAfter: again}, err
}

// stamp puts the finalizer and the hash on a class.
func (c *classReconciler) stamp(ctx context.Context, class *awsv1.EC2NodeClass) error {
	before := class.DeepCopy()
	controllerutil.AddFinalizer(class, awsv1.TerminationFinalizer)
	metav1.SetMetaDataAnnotation(&class.ObjectMeta, awsv1.AnnotationHash, c.opts.hash(class))
	metav1.SetMetaDataAnnotation(&class.ObjectMeta, awsv1.AnnotationHashVersion, awsv1.HashVersion)
	if reflect.DeepEqual(before.ObjectMeta, class.ObjectMeta) {
		return nil
	}
	status := class.Status.DeepCopy()
	err := c.client.Patch(ctx, class, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	class.Status = *status
	convert.Class(class) // the answer is what is stored
	if err != nil {
		return fmt.Errorf("mark node class %s: %w", class.Name, err)
	}
	return nil
}

// resolve finds what a class asks for and judges it. What cannot be read leaves its part
// of the status as it was.
func (c *classReconciler) resolve(ctx context.Context, class *awsv1.EC2NodeClass) (again time.Duration, err error) {
	set := condition.ForEC2NodeClass(class, c.opts.Reservations)
	set.Init(c.opts.Now())
	var errs []error
	judge := func(conditionType string, find func(context.Context, *awsv1.EC2NodeClass) (finding, error)) {
		f, err := find(ctx, class)
		if err != nil {
			errs = append(errs, fmt.Errorf("node class %s: %w", class.Name, err))
			return
		}
		switch {
		case f.inconclusive:
			if was := set.Get(conditionType); !stands(&was, class.Generation) {
				set.SetUnknown(conditionType, condition.ReasonAwaiting, f.message, c.opts.Now())
			}
		case f.reason == "":
			set.SetTrue(conditionType, c.opts.Now())
		case f.unknown:
			set.SetUnknown(conditionType, f.reason, f.message, c.opts.Now())
		default:
			set.SetFalse(conditionType, f.reason, f.message, c.opts.Now())
		}
		if f.again > 0 && (again == 0 || f.again < again) {
			again = f.again
		}
	}
	judge(awsv1.ConditionTypeAMIsReady, c.images.resolve)
	if c.opts.Reservations {
		judge(awsv1.ConditionTypeCapacityReservationsReady, c.reservations.resolve)
	}
	judge(awsv1.ConditionTypePlacementGroupReady, c.placementGroups.resolve)
	judge(awsv1.ConditionTypeSubnetsReady, c.network.resolveSubnets)
	judge(awsv1.ConditionTypeSecurityGroupsReady, c.network.resolveSecurityGroups)
	judge(awsv1.ConditionTypeInstanceProfileReady, c.profiles.resolve)
	judge(awsv1.ConditionTypeValidationSucceeded, c.validator.validate)
	return again, errors.Join(errs...)
}

// stands reports whether a condition stays as it is while the dry run is inconclusive. It must be
// of this generation, and be true, or false because of a dry run: all other reasons to be false
// were checked before the dry run and no longer hold.
func stands(c *metav1.Condition, generation int64) bool {
	dryRuns := []string{reasonTemplateDenied, reasonFleetDenied, reasonInstancesDenied, reasonUserDataSize, reasonProfileMissing}
	return c.ObservedGeneration == generation && (c.Status == metav1.ConditionTrue || c.Status == metav1.ConditionFalse && slices.Contains(dryRuns, c.Reason))
}

// finalize deletes what was made for a class when no claim needs it any more.
func (c *classReconciler) finalize(ctx context.Context, class *awsv1.EC2NodeClass) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(class, awsv1.TerminationFinalizer) {
		return reconcile.Result{}, nil
	}
	var claims karpenterv1.NodeClaimList
	if err := c.client.List(ctx, &claims); err != nil {
		return reconcile.Result{}, fmt.Errorf("list claims of node class %s: %w", class.Name, err)
	}
	for i := range claims.Items {
		if ref := claims.Items[i].Spec.NodeClassRef; ref != nil && ref.Group == awsv1.Group && ref.Name == class.Name {
			return reconcile.Result{RequeueAfter: claimsAgain}, nil
		}
	}
	if !c.opts.IsolatedVPC {
		if err := c.profiles.deleteUnder(ctx, c.profiles.path(class), func(string) bool { return false }); err != nil {
			return reconcile.Result{}, err
		}
		if err := c.profiles.deleteLegacy(ctx, class.Name); err != nil {
			return reconcile.Result{}, err
		}
	}
	if err := c.templates.removeOf(ctx, class.Name); err != nil {
		return reconcile.Result{}, err
	}
	c.validator.tried.drop(class.Name)
	c.validator.types.devices.drop(class.Name)
	c.opts.Meter.UserData(class.Name, 0)
	before := class.DeepCopy()
	controllerutil.RemoveFinalizer(class, awsv1.TerminationFinalizer)
	if err := c.client.Patch(ctx, class, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("let node class %s go: %w", class.Name, err)
	}
	return reconcile.Result{}, nil
}
