package condition

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpenterv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
)

// Reasons that the package itself gives.
const (
	// ReasonAwaiting is that of a condition nobody has judged yet.
	ReasonAwaiting = "AwaitingReconciliation"
	// ReasonUnhealthy is that of a root with a dependent that is False.
	ReasonUnhealthy = "UnhealthyDependents"
	// ReasonReconciling is that of a root with a dependent that is not judged yet, or
	// was judged for an older generation.
	ReasonReconciling = "ReconcilingDependents"
)

const awaitingMessage = "object is awaiting reconciliation"

// Set is the conditions of one object. Its methods change the object; copies of
// a Set speak of the same object.
type Set struct {
	object     metav1.Object
	conditions *[]metav1.Condition
	dependents []string
}

// ForNodeClaim returns the conditions of a claim, whose root is Ready = Launched ∧
// Registered ∧ Initialized.
func ForNodeClaim(nc *karpenterv1.NodeClaim) Set {
	return Set{nc, &nc.Status.Conditions, []string{
		karpenterv1.ConditionTypeLaunched, karpenterv1.ConditionTypeRegistered, karpenterv1.ConditionTypeInitialized,
	}}
}

// ForNodePool returns the conditions of a pool, whose root is Ready =
// ValidationSucceeded ∧ NodeClassReady.
func ForNodePool(np *karpenterv1.NodePool) Set {
	return Set{np, &np.Status.Conditions, []string{
		karpenterv1.ConditionTypeValidationSucceeded, karpenterv1.ConditionTypeNodeClassReady,
	}}
}

// ForNodeOverlay returns the conditions of an overlay, whose root is Ready = ValidationSucceeded.
func ForNodeOverlay(no *karpenterv1alpha1.NodeOverlay) Set {
	return Set{no, &no.Status.Conditions, []string{karpenterv1alpha1.ConditionTypeValidationSucceeded}}
}

// ForEC2NodeClass returns the conditions of a class of EC2, whose root is Ready = all
// others. CapacityReservationsReady is one of them if reservations are used.
func ForEC2NodeClass(nc *awsv1.EC2NodeClass, reservations bool) Set {
	dependents := []string{
		awsv1.ConditionTypeAMIsReady, awsv1.ConditionTypeSubnetsReady, awsv1.ConditionTypeSecurityGroupsReady,
		awsv1.ConditionTypeInstanceProfileReady, awsv1.ConditionTypePlacementGroupReady, awsv1.ConditionTypeValidationSucceeded,
	}
	if reservations {
		dependents = append(dependents, awsv1.ConditionTypeCapacityReservationsReady)
	}
	return Set{nc, &nc.Status.Conditions, dependents}
}

// Get returns a condition. The root and its dependents are Unknown, since the
// creation of the object, while nobody has judged them; any other condition that
// is absent has the empty Status.
func (s Set) Get(conditionType string) metav1.Condition {
	if c := s.find(conditionType); c != nil {
		return *c
	}
	if s.isRoot(conditionType) || s.isDependent(conditionType) {
		return s.awaiting(conditionType)
	}
	return metav1.Condition{}
}

// IsTrue reports whether all of the conditions are True, whatever generation they
// were judged at.
func (s Set) IsTrue(types ...string) bool {
	return !slices.ContainsFunc(types, func(t string) bool { return s.Get(t).Status != metav1.ConditionTrue })
}

// Init writes the root and the dependents that are missing, as Get would answer
// for them. It returns whether anything was missing.
func (s Set) Init(now time.Time) bool {
	before := slices.Clone(*s.conditions)
	s.initMissing(now)
	return s.finish(before)
}

// Set writes a condition and computes the root anew. It stamps the generation of
// the object; the transition time is now if the status changed and stays as it
// was if not. What c says of either does not matter. Setting the root only
// computes it anew, since it follows from the others. It returns whether anything
// changed.
func (s Set) Set(c metav1.Condition, now time.Time) bool {
	before := slices.Clone(*s.conditions)
	s.initMissing(now)
	if !s.isRoot(c.Type) {
		s.put(c, now)
	}
	s.observeDeletion()
	s.computeRoot(now)
	return s.finish(before)
}

// SetTrue sets a condition to True, with its type as the reason.
func (s Set) SetTrue(conditionType string, now time.Time) bool {
	return s.Set(metav1.Condition{Type: conditionType, Status: metav1.ConditionTrue, Reason: conditionType}, now)
}

// SetFalse sets a condition to False.
func (s Set) SetFalse(conditionType, reason, message string, now time.Time) bool {
	return s.Set(metav1.Condition{Type: conditionType, Status: metav1.ConditionFalse, Reason: reason, Message: message}, now)
}

// SetUnknown sets a condition to Unknown.
func (s Set) SetUnknown(conditionType, reason, message string, now time.Time) bool {
	return s.Set(metav1.Condition{Type: conditionType, Status: metav1.ConditionUnknown, Reason: reason, Message: message}, now)
}

// Clear removes a condition and returns whether it was there. The root and its
// dependents cannot be removed.
func (s Set) Clear(conditionType string) bool {
	if s.isRoot(conditionType) || s.isDependent(conditionType) {
		return false
	}
	had := len(*s.conditions)
	*s.conditions = slices.DeleteFunc(*s.conditions, func(c metav1.Condition) bool { return c.Type == conditionType })
	return len(*s.conditions) != had
}

// isRoot reports whether a type is the one that sums up the others.
func (s Set) isRoot(conditionType string) bool {
	return conditionType == karpenterv1.ConditionTypeReady
}

// isDependent reports whether the root depends on a type.
func (s Set) isDependent(conditionType string) bool {
	return slices.Contains(s.dependents, conditionType)
}

// find returns the condition in place, or nil.
func (s Set) find(conditionType string) *metav1.Condition {
	for i := range *s.conditions {
		if (*s.conditions)[i].Type == conditionType {
			return &(*s.conditions)[i]
		}
	}
	return nil
}

// awaiting returns the condition that stands for "nobody has judged this yet".
func (s Set) awaiting(conditionType string) metav1.Condition {
	return metav1.Condition{
		Type: conditionType, Status: metav1.ConditionUnknown,
		Reason: ReasonAwaiting, Message: awaitingMessage,
		LastTransitionTime: s.object.GetCreationTimestamp(), ObservedGeneration: s.object.GetGeneration(),
	}
}

// initMissing appends the root and the dependents that are missing. An object
// that the API server has not seen has no creation time; it counts as created now.
func (s Set) initMissing(now time.Time) {
	for _, t := range append([]string{karpenterv1.ConditionTypeReady}, s.dependents...) {
		if s.find(t) != nil {
			continue
		}
		c := s.awaiting(t)
		if c.LastTransitionTime.IsZero() {
			c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
		}
		*s.conditions = append(*s.conditions, c)
	}
}

// put writes one condition and nothing else.
func (s Set) put(c metav1.Condition, now time.Time) {
	if c.Status == metav1.ConditionTrue && c.Reason == "" {
		c.Reason = c.Type
	}
	c.ObservedGeneration = s.object.GetGeneration()
	c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	old := s.find(c.Type)
	if old == nil {
		*s.conditions = append(*s.conditions, c)
		return
	}
	if old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	*old = c
}

// observeDeletion stamps every condition with the generation that the deletion
// made, since nobody judges them one by one any more.
func (s Set) observeDeletion() {
	if s.object.GetDeletionTimestamp() == nil {
		return
	}
	for i := range *s.conditions {
		(*s.conditions)[i].ObservedGeneration = s.object.GetGeneration()
	}
}

// computeRoot writes the root as it follows from the dependents.
func (s Set) computeRoot(now time.Time) {
	root := metav1.Condition{Type: karpenterv1.ConditionTypeReady, Status: metav1.ConditionTrue, Reason: karpenterv1.ConditionTypeReady}
	var offenders []string
	for _, t := range s.dependents {
		c := s.Get(t)
		status, current := c.Status, c.ObservedGeneration == s.object.GetGeneration()
		switch {
		case status == metav1.ConditionTrue && current:
			continue
		case status == metav1.ConditionFalse && current:
			root.Status, root.Reason = metav1.ConditionFalse, ReasonUnhealthy
		case root.Status == metav1.ConditionTrue:
			root.Status, root.Reason = metav1.ConditionUnknown, ReasonReconciling
		}
		if !current {
			status = metav1.ConditionUnknown
		}
		offenders = append(offenders, fmt.Sprintf("%s=%s", t, status))
	}
	root.Message = strings.Join(offenders, ", ")
	s.put(root, now)
}

// finish brings the conditions into their order, the latest transition last and
// the root behind all, and returns whether they differ from what they were.
func (s Set) finish(before []metav1.Condition) bool {
	slices.SortStableFunc(*s.conditions, func(a, b metav1.Condition) int {
		if s.isRoot(a.Type) != s.isRoot(b.Type) {
			if s.isRoot(a.Type) {
				return 1
			}
			return -1
		}
		return cmp.Or(a.LastTransitionTime.Compare(b.LastTransitionTime.Time), strings.Compare(a.Type, b.Type))
	})
	return !slices.EqualFunc(before, *s.conditions, func(a, b metav1.Condition) bool {
		return a.LastTransitionTime.Equal(&b.LastTransitionTime) && a.Type == b.Type && a.Status == b.Status &&
			a.Reason == b.Reason && a.Message == b.Message && a.ObservedGeneration == b.ObservedGeneration
	})
}
