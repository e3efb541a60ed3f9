package aws

import (
	"cmp"
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
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/family"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
)

const (
	classController = "nodeclass"
	classesAtOnce   = 10
	// What was found is looked up again after this time, and what was not sooner.
	subnetsAgain = time.Minute
	groupsAgain  = 5 * time.Minute
	imagesAgain  = 5 * time.Minute
	// sooner is how much sooner what was found is old.
	sooner            = 10 * time.Second
	reservationsAgain = time.Minute
	placementAgain    = 5 * time.Minute
	validationAgain   = 10 * time.Minute
	missingAgain      = time.Minute
	// claimsAgain is when a class that is to go is looked at again while claims are left.
	claimsAgain = 10 * time.Minute
)

// finding is what one look at the account says of a class.
type finding struct {
	// reason and message say what is missing; empty: nothing is.
	reason, message string
	// unknown: it cannot be said yet.
	unknown bool
	// inconclusive: it could not be found out, as message says. The condition stays as it was.
	inconclusive bool
	// again is when to look again; 0: when something changes.
	again time.Duration
}

// Register adds the loop that keeps the status of classes to a manager.
func (p *Provider) Register(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).Named(classController).
		For(&awsv1.EC2NodeClass{}).
		Watches(&karpenterv1.NodeClaim{}, handler.EnqueueRequestsFromMapFunc(classOfGoneClaim)).
		WithOptions(controller.Options{MaxConcurrentReconciles: classesAtOnce}).
		Complete(reconcile.Func(p.reconcileClass))
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

func (p *Provider) reconcileClass(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	class := &awsv1.EC2NodeClass{}
	if err := p.client.Get(ctx, request.NamespacedName, class); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if class.DeletionTimestamp != nil {
		return p.finalizeClass(ctx, class)
	}
	if err := p.stamp(ctx, class); err != nil {
		return reconcile.Result{}, err
	}
	before := class.DeepCopy()
	again, err := p.resolve(ctx, class)
	if !reflect.DeepEqual(before.Status, class.Status) {
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if patchErr := p.client.Status().Patch(ctx, class, patch); client.IgnoreNotFound(patchErr) != nil {
			if apierrors.IsConflict(patchErr) {
				return reconcile.Result{RequeueAfter: time.Second}, nil
			}
			err = errors.Join(err, fmt.Errorf("write status of node class %s: %w", class.Name, patchErr))
		}
	}
	return reconcile.Result{RequeueAfter: again}, err
}

// stamp puts the finalizer and the hash on a class.
func (p *Provider) stamp(ctx context.Context, class *awsv1.EC2NodeClass) error {
	before := class.DeepCopy()
	controllerutil.AddFinalizer(class, awsv1.TerminationFinalizer)
	metav1.SetMetaDataAnnotation(&class.ObjectMeta, awsv1.AnnotationHash, p.hash(class))
	metav1.SetMetaDataAnnotation(&class.ObjectMeta, awsv1.AnnotationHashVersion, awsv1.HashVersion)
	if reflect.DeepEqual(before.ObjectMeta, class.ObjectMeta) {
		return nil
	}
	status := class.Status.DeepCopy()
	err := p.client.Patch(ctx, class, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	class.Status = *status
	if err != nil {
		return fmt.Errorf("mark node class %s: %w", class.Name, err)
	}
	return nil
}

// resolve finds what a class asks for and judges it. What cannot be read leaves its part
// of the status as it was.
func (p *Provider) resolve(ctx context.Context, class *awsv1.EC2NodeClass) (again time.Duration, err error) {
	set := condition.ForEC2NodeClass(class, p.opts.Reservations)
	set.Init(p.opts.Now())
	var errs []error
	look := func(conditionType string, find func(context.Context, *awsv1.EC2NodeClass) (finding, error)) {
		f, err := find(ctx, class)
		if err != nil {
			errs = append(errs, fmt.Errorf("node class %s: %w", class.Name, err))
			return
		}
		switch {
		case f.inconclusive:
			if was := set.Get(conditionType); !stands(&was, class.Generation) {
				set.SetUnknown(conditionType, condition.ReasonAwaiting, f.message, p.opts.Now())
			}
		case f.reason == "":
			set.SetTrue(conditionType, p.opts.Now())
		case f.unknown:
			set.SetUnknown(conditionType, f.reason, f.message, p.opts.Now())
		default:
			set.SetFalse(conditionType, f.reason, f.message, p.opts.Now())
		}
		if f.again > 0 && (again == 0 || f.again < again) {
			again = f.again
		}
	}
	look(awsv1.ConditionTypeAMIsReady, p.resolveImages)
	if p.opts.Reservations {
		look(awsv1.ConditionTypeCapacityReservationsReady, p.resolveReservations)
	}
	look(awsv1.ConditionTypePlacementGroupReady, p.resolvePlacementGroup)
	look(awsv1.ConditionTypeSubnetsReady, p.resolveSubnets)
	look(awsv1.ConditionTypeSecurityGroupsReady, p.resolveSecurityGroups)
	look(awsv1.ConditionTypeInstanceProfileReady, p.resolveProfile)
	look(awsv1.ConditionTypeValidationSucceeded, p.validate)
	return again, errors.Join(errs...)
}

// stands reports whether a condition still says what it said while its dry run is
// inconclusive: that of this generation, if it is true or a dry run made it false. The other
// reasons to be false were looked at before the dry run, and are over.
func stands(c *metav1.Condition, generation int64) bool {
	dryRuns := []string{reasonTemplateDenied, reasonFleetDenied, reasonInstancesDenied, reasonUserDataSize, reasonProfileMissing}
	return c.ObservedGeneration == generation && (c.Status == metav1.ConditionTrue || c.Status == metav1.ConditionFalse && slices.Contains(dryRuns, c.Reason))
}

// lookKey is the same until the spec of a class is edited.
func lookKey(class *awsv1.EC2NodeClass) string {
	return fmt.Sprintf("%s %s %d", class.Name, class.UID, class.Generation)
}

func (p *Provider) resolveImages(ctx context.Context, class *awsv1.EC2NodeClass) (finding, error) {
	if name, _, ok := family.Alias(&class.Spec); ok {
		version, err := p.kubernetesVersion(ctx)
		if err != nil {
			return finding{}, err
		}
		if why := aliasUnsupported(name, version); why != "" {
			class.Status.AMIs = nil
			return finding{reason: "UnsupportedAlias", message: why}, nil
		}
	}
	found, err := p.images.get(ctx, lookKey(class), func(ctx context.Context) ([]awsv1.AMI, error) { return p.findImages(ctx, class) })
	if err != nil {
		return finding{}, err
	}
	class.Status.AMIs = found
	if name, version, ok := family.Alias(&class.Spec); ok && version == latest && slices.ContainsFunc(found, func(a awsv1.AMI) bool { return a.Deprecated }) {
		if kubernetes, err := p.kubernetesVersion(ctx); err == nil {
			p.dropLatest(name, kubernetes) // there must be a later one
			p.images.drop(lookKey(class))
		}
	}
	if len(found) == 0 {
		p.images.drop(lookKey(class))
		return finding{reason: "AMINotFound", message: "no image matches spec.amiSelectorTerms", again: missingAgain}, nil
	}
	return finding{again: p.opts.AMIRefresh}, nil
}

func (p *Provider) resolveReservations(ctx context.Context, class *awsv1.EC2NodeClass) (finding, error) {
	found, err := p.findReservations(ctx, class)
	if err != nil {
		return finding{}, err
	}
	class.Status.CapacityReservations = found
	if len(class.Spec.CapacityReservationSelectorTerms) == 0 {
		return finding{}, nil
	}
	return finding{again: reservationsAgain}, nil
}

func (p *Provider) resolvePlacementGroup(ctx context.Context, class *awsv1.EC2NodeClass) (finding, error) {
	if class.Spec.PlacementGroupSelector == nil {
		return finding{}, nil
	}
	group, err := p.findPlacementGroup(ctx, class)
	switch {
	case err != nil && isInconclusive(err):
		return finding{}, err
	case err != nil:
		return finding{reason: "PlacementGroupResolutionFailed", message: err.Error(), again: missingAgain}, nil //nolint:nilerr // the condition tells it
	case group == nil:
		return finding{reason: "PlacementGroupNotFound", message: "no placement group matches spec.placementGroupSelector", again: missingAgain}, nil
	}
	return finding{again: placementAgain}, nil
}

func (p *Provider) resolveSubnets(ctx context.Context, class *awsv1.EC2NodeClass) (finding, error) {
	found, err := p.subnets.get(ctx, lookKey(class), func(ctx context.Context) ([]awsv1.Subnet, error) { return p.findSubnets(ctx, class) })
	if err != nil {
		return finding{}, err
	}
	class.Status.Subnets = stable(class.Status.Subnets, found)
	if len(found) == 0 {
		p.subnets.drop(lookKey(class))
		return finding{reason: "SubnetsNotFound", message: "no subnet matches spec.subnetSelectorTerms", again: missingAgain}, nil
	}
	return finding{again: p.opts.SubnetRefresh}, nil
}

// stable returns the subnets in the order they had if they are the same: the order by free
// addresses is for people, and not worth a write each minute.
func stable(had, found []awsv1.Subnet) []awsv1.Subnet {
	byID := func(list []awsv1.Subnet) []awsv1.Subnet {
		return slices.SortedFunc(slices.Values(list), func(a, b awsv1.Subnet) int { return cmp.Compare(a.ID, b.ID) })
	}
	if slices.Equal(byID(had), byID(found)) {
		return had
	}
	return found
}

func (p *Provider) resolveSecurityGroups(ctx context.Context, class *awsv1.EC2NodeClass) (finding, error) {
	found, err := p.groups.get(ctx, lookKey(class), func(ctx context.Context) ([]awsv1.SecurityGroup, error) { return p.findSecurityGroups(ctx, class) })
	if err != nil {
		return finding{}, err
	}
	class.Status.SecurityGroups = found
	if len(found) == 0 {
		p.groups.drop(lookKey(class))
		return finding{reason: "SecurityGroupsNotFound", message: "no security group matches spec.securityGroupSelectorTerms", again: missingAgain}, nil
	}
	return finding{again: p.opts.GroupRefresh}, nil
}

func (p *Provider) resolveProfile(ctx context.Context, class *awsv1.EC2NodeClass) (finding, error) {
	name, err := p.ensureProfile(ctx, class)
	if err != nil {
		return finding{}, err
	}
	class.Status.InstanceProfile = name
	return finding{}, nil
}

// finalizeClass deletes what was made for a class when no claim needs it any more.
func (p *Provider) finalizeClass(ctx context.Context, class *awsv1.EC2NodeClass) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(class, awsv1.TerminationFinalizer) {
		return reconcile.Result{}, nil
	}
	var claims karpenterv1.NodeClaimList
	if err := p.client.List(ctx, &claims); err != nil {
		return reconcile.Result{}, fmt.Errorf("list claims of node class %s: %w", class.Name, err)
	}
	for i := range claims.Items {
		if ref := claims.Items[i].Spec.NodeClassRef; ref != nil && ref.Group == awsv1.Group && ref.Name == class.Name {
			return reconcile.Result{RequeueAfter: claimsAgain}, nil
		}
	}
	if !p.opts.IsolatedVPC {
		if err := p.deleteProfiles(ctx, p.profilePath(class), func(string) bool { return false }); err != nil {
			return reconcile.Result{}, err
		}
		if err := p.deleteLegacyProfile(ctx, class.Name); err != nil {
			return reconcile.Result{}, err
		}
	}
	if err := p.templates.removeOf(ctx, class.Name); err != nil {
		return reconcile.Result{}, err
	}
	p.tried.drop(class.Name)
	p.opts.Meter.UserData(class.Name, 0)
	before := class.DeepCopy()
	controllerutil.RemoveFinalizer(class, awsv1.TerminationFinalizer)
	if err := p.client.Patch(ctx, class, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("let node class %s go: %w", class.Name, err)
	}
	return reconcile.Result{}, nil
}
