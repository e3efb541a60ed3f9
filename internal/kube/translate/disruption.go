package translate

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/drift"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// Annotations of ours.
const (
	// DecisionAnnotationKey is on a NodeClaim, and on events: the ID of the decision that it comes from.
	DecisionAnnotationKey = "dovetail.sh/decision"
	// StepAnnotationKey is on the NodeClaims of a command in progress: the command's id, how many
	// nodes it removes, how many it launched, and perhaps "terminate-first", with spaces between.
	StepAnnotationKey = "dovetail.sh/disruption-step"
	// ExpireAfterAnnotationKey is on a claim of v1beta1: the age at which it is removed, as its pool
	// says, or "Never".
	ExpireAfterAnnotationKey = "dovetail.sh/expire-after"
	// ProvisionalIDAnnotationKey is on a claim whose launch the cloud has accepted: what the cloud calls the
	// instance until it has a provider ID.
	ProvisionalIDAnnotationKey = "dovetail.sh/provisional-id"
	// ReplaceByAnnotationKey is on a claim whose instance the cloud will take away: the time
	// by which its drain must begin, in RFC 3339.
	ReplaceByAnnotationKey = "dovetail.sh/replace-by"
	// InterruptionAnnotationKey is on the same claim: the kind of the cloud's notice.
	InterruptionAnnotationKey = "dovetail.sh/interruption"
	// ReplacesAnnotationKey is on a NodeClaim that was launched for a command: the command's id.
	ReplacesAnnotationKey = "dovetail.sh/replaces"
	// PauseAnnotationKey on a NodePool pauses disruption of its nodes. The value says why; "false": it does not.
	PauseAnnotationKey = "dovetail.sh/pause-disruption"
	// TimeZoneAnnotationKey on a NodePool is the time zone of its budgets' schedules, by its
	// IANA name ("Europe/Berlin"). Without it they are in UTC.
	TimeZoneAnnotationKey = "dovetail.sh/budget-time-zone"
	// EvictionHourlyAnnotationKey on a NodePool is what consolidation must save for each
	// ordinary pod that it evicts from the pool's nodes, in dollars per hour ("0.02").
	EvictionHourlyAnnotationKey = "dovetail.sh/eviction-hourly-dollars"
	// SavingShareMinAnnotationKey on a NodePool is the share of the price of the pool's nodes
	// that their removal by consolidation must save ("0.05"), evictions aside.
	SavingShareMinAnnotationKey = "dovetail.sh/saving-share-min"
)

// PreferOthersTaintKey is the key of the soft taint (PreferNoSchedule) of Nodes that consolidation
// means to remove later, so that pods that are evicted before are not evicted again there, or to
// fill later, when others are full.
const PreferOthersTaintKey = "dovetail.sh/leaving"

// PreferOthersTaint returns that taint.
func PreferOthersTaint() corev1.Taint {
	return corev1.Taint{Key: PreferOthersTaintKey, Effect: corev1.TaintEffectPreferNoSchedule}
}

// isPreferOthersTaint reports whether a taint is that one.
func isPreferOthersTaint(t corev1.Taint) bool { return t.Key == PreferOthersTaintKey }

// terminateFirst ends the StepAnnotation of a command that removes its nodes before others are there.
const terminateFirst = "terminate-first"

// StepAnnotation returns the value of StepAnnotationKey.
func StepAnnotation(command *plan.Command) string {
	text := fmt.Sprintf("%s %d %d", command.ID, len(command.Remove), len(command.Launch))
	if command.TerminateFirst != "" {
		text += " " + terminateFirst
	}
	return text
}

// disruption returns what may disrupt a NodeClaim's node, or has begun to. An annotation of a
// command that cannot be read counts as that of a command that was not begun completely, so that
// the command is cancelled.
func disruption(nc *karpenterv1.NodeClaim) cluster.Disruption {
	d := cluster.Disruption{
		HasGrace:  nc.Spec.TerminationGracePeriod != nil,
		Ending:    trueCondition(nc, karpenterv1.ConditionTypeInstanceTerminating) != nil,
		Rebooting: IsRebooting(nc),
		Replaces:  nc.Annotations[ReplacesAnnotationKey],
	}
	if d.HasGrace {
		d.Grace = nc.Spec.TerminationGracePeriod.Duration
	}
	if deadline, err := Deadline(nc); err == nil { // the termination controller reports what is wrong with it
		d.Deadline = deadline
	}
	if c := trueCondition(nc, karpenterv1.ConditionTypeDrifted); c != nil {
		d.Drifted, d.DriftedSince = c.Reason, c.LastTransitionTime.Time
	}
	words := strings.Fields(nc.Annotations[StepAnnotationKey])
	d.StepTerminatesFirst = len(words) == 4 && words[3] == terminateFirst
	if len(words) == 3 || d.StepTerminatesFirst {
		removes, err1 := strconv.Atoi(words[1])
		launches, err2 := strconv.Atoi(words[2])
		if err1 == nil && err2 == nil {
			d.Step, d.StepRemoves, d.StepLaunches = words[0], removes, launches
		}
	}
	return d
}

// pauseReasonMost bounds what is kept of why disruption is paused, in bytes.
const pauseReasonMost = 256

// Paused returns why disruption of a pool is paused by its annotation; empty: it is not.
func Paused(np *karpenterv1.NodePool) string {
	why, is := np.Annotations[PauseAnnotationKey]
	if !is || why == "false" {
		return ""
	}
	return PausedBy("annotation "+PauseAnnotationKey, why)
}

// PausedBy says what pauses disruption, and why, if a person has said so.
func PausedBy(what, why string) string {
	if why = strings.Join(strings.Fields(why), " "); why != "" && why != karpenterv1.LabelValueTrue {
		what += ": " + verdict.Cut(why, pauseReasonMost)
	}
	return what
}

// policy returns a pool's consolidation policy, by its present name.
func policy(np *karpenterv1.NodePool) string {
	if p := np.Spec.Disruption.ConsolidationPolicy; p != karpenterv1.ConsolidationPolicyWhenUnderutilized {
		return string(p)
	}
	return cluster.PolicyUnderutilized
}

// Budgets returns a pool's budgets at an instant. A budget that cannot be read allows no
// disruption.
func Budgets(np *karpenterv1.NodePool, now time.Time) []cluster.Budget {
	zone, zoneErr := timeZone(np)
	var out []cluster.Budget
	for i := range np.Spec.Disruption.Budgets {
		b, err := budget(&np.Spec.Disruption.Budgets[i], zone, now)
		if err == nil && np.Spec.Disruption.Budgets[i].Schedule != nil {
			err = zoneErr
		}
		if err != nil {
			b = cluster.Budget{Active: true, Invalid: err.Error()}
		}
		out = append(out, b)
	}
	return out
}

func timeZone(np *karpenterv1.NodePool) (*time.Location, error) {
	name := np.Annotations[TimeZoneAnnotationKey]
	if name == "" {
		return time.UTC, nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return time.UTC, fmt.Errorf("time zone %q is not known", name)
	}
	return zone, nil
}

func budget(b *karpenterv1.Budget, zone *time.Location, now time.Time) (cluster.Budget, error) {
	out := cluster.Budget{Active: true}
	for _, r := range b.Reasons {
		out.Reasons = append(out.Reasons, string(r))
	}
	count, percent := strings.CutSuffix(b.Nodes, "%")
	n, err := strconv.Atoi(count)
	if err != nil {
		return out, fmt.Errorf("%q is neither a number of nodes nor a percentage", b.Nodes)
	}
	out.Nodes, out.Percent = n, percent
	if b.Schedule == nil && b.Duration == nil {
		return out, nil
	}
	if b.Schedule == nil || b.Duration == nil {
		return out, fmt.Errorf("schedule and duration belong together")
	}
	w, err := parseWindows(*b.Schedule, zone, b.Duration.Duration)
	if err != nil {
		return out, err
	}
	out.Active, out.Scheduled = w.open(now), true
	return out, nil
}

// BudgetChanges returns when each budget of a pool becomes active or ceases to be, in their order; zero:
// not within about a week.
func BudgetChanges(np *karpenterv1.NodePool, now time.Time) []time.Time {
	zone, zoneErr := timeZone(np)
	out := make([]time.Time, len(np.Spec.Disruption.Budgets))
	for i := range np.Spec.Disruption.Budgets {
		b := &np.Spec.Disruption.Budgets[i]
		if b.Schedule == nil || b.Duration == nil || zoneErr != nil {
			continue
		}
		if w, err := parseWindows(*b.Schedule, zone, b.Duration.Duration); err == nil {
			out[i] = w.changes(now)
		}
	}
	return out
}

// positive returns the number in an annotation of a pool; 0: there is none above 0 that can
// be read.
func positive(np *karpenterv1.NodePool, key string) float64 {
	v, err := strconv.ParseFloat(np.Annotations[key], 64)
	if err != nil || v < 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	return v
}

// UnreadAnnotations says which of our annotations of a pool cannot be read, so that the settings
// of the controller apply instead.
func UnreadAnnotations(np *karpenterv1.NodePool) (why []string) {
	for _, key := range []string{EvictionHourlyAnnotationKey, SavingShareMinAnnotationKey} {
		if text, ok := np.Annotations[key]; ok && positive(np, key) == 0 {
			why = append(why, fmt.Sprintf("annotation %s is %q and not used: it must be a number above 0", key, text))
		}
	}
	return why
}

// EvictionCost returns what a pod says that its eviction costs: by its annotation disruption-cost
// or, if it has none, by that of Kubernetes for the deletion by its ReplicaSet. With the gate
// PodDeletionCostManagement the latter says what we think of its node, and is not read. unread
// says which annotation cannot be read; the cost is 0 then.
func EvictionCost(p *corev1.Pod, isManaged bool) (cost int32, unread string) {
	for _, key := range []string{karpenterv1.DisruptionCostAnnotationKey, corev1.PodDeletionCost} {
		text, ok := p.Annotations[key]
		if !ok || key == corev1.PodDeletionCost && isManaged {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return 0, fmt.Sprintf("annotation %s is %q and counts as 0: it must be a number from -2147483648 to 2147483647", key, text)
		}
		return int32(n), ""
	}
	return 0, ""
}

// ReschedulablePod returns a pod on a node as one that would need another node. The mirror adds
// its constraints, its cost and its PodDisruptionBudgets.
func ReschedulablePod(p *corev1.Pod, rules AutoscalerRules, now time.Time) cluster.ReschedulablePod {
	r := cluster.ReschedulablePod{PodRef: PodRef(p), Created: p.CreationTimestamp.Time}
	if p.Spec.Priority != nil {
		r.Priority = *p.Spec.Priority
	}
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil {
		r.Controller = owner.Kind
	}
	if annotation := rules.BlocksDisruption(p, now); annotation != "" {
		r.DoNotDisrupt = "annotation " + annotation
	}
	return r
}

// Initialized reports whether a NodeClaim's node takes pods.
func Initialized(nc *karpenterv1.NodeClaim) bool {
	return trueCondition(nc, karpenterv1.ConditionTypeInitialized) != nil
}

// Drift returns what decides whether a claim has drifted from its pool, without what only the
// provider knows.
func Drift(nc *karpenterv1.NodeClaim, np *karpenterv1.NodePool, types []*catalog.Type, now time.Time) (drift.View, error) {
	hash := func(annotations map[string]string) drift.Hash {
		return drift.Hash{Value: annotations[karpenterv1.NodePoolHashAnnotationKey], Version: annotations[karpenterv1.NodePoolHashVersionAnnotationKey]}
	}
	requirements, err := Requirements(np.Spec.Template.Spec.Requirements)
	return drift.View{
		At: now, Created: nc.CreationTimestamp.Time, Launched: trueCondition(nc, karpenterv1.ConditionTypeLaunched) != nil,
		Pool: hash(np.Annotations), Claim: hash(nc.Annotations), Requirements: requirements, Labels: nc.Labels, Types: types,
	}, err
}
