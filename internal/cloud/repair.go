package cloud

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
)

// Repairer is a provider that knows which node conditions mean a broken instance.
type Repairer interface {
	RepairPolicies() []RepairPolicy
}

// LegacyRepairer is a Repairer whose policies were others when repair asked no budgets.
type LegacyRepairer interface {
	LegacyRepairPolicies() []RepairPolicy
}

// RepairAction is what repairs a node.
type RepairAction string

// The actions.
const (
	// ReplaceNode launches other nodes for the pods and removes this one.
	ReplaceNode RepairAction = "ReplaceNode"
	// RebootNode restarts the instance and keeps the node.
	RebootNode RepairAction = "RebootNode"
)

// RepairPolicy says that a node whose condition has this status for this long is broken, and what
// repairs it.
type RepairPolicy struct {
	ConditionType, ConditionStatus string
	// ReasonRegex is searched for in the condition's reason. The one policy of a set in which it is
	// empty is for all reasons that no other policy of the condition matches.
	ReasonRegex string
	Toleration  time.Duration
	// TerminationGracePeriod is how long the drain may take; nil: what the NodeClaim says; 0: pods
	// are deleted by force at once.
	TerminationGracePeriod *time.Duration
	// Priority is from 0 to 100. Nodes with the higher one are repaired first.
	Priority int
	Action   RepairAction
}

const priorityMax = 100

// RepairRules are the repair policies of a provider, ready to be asked about Nodes. A nil
// *RepairRules knows of no broken Node.
type RepairRules struct {
	rules    []repairRule
	fallback *repairRule
}

// repairRule is one policy. rank is its place by priority: 0 for the lowest of the set.
type repairRule struct {
	policy RepairPolicy
	reason *regexp.Regexp
	rank   int
}

// NewRepairRules returns the rules of a set of policies, or all that is wrong with the set.
func NewRepairRules(policies []RepairPolicy) (*RepairRules, error) {
	r := &RepairRules{}
	var errs []error
	fallbacks := 0
	var priorities []int
	for i := range policies {
		priorities = append(priorities, policies[i].Priority)
	}
	slices.Sort(priorities)
	priorities = slices.Compact(priorities)
	for i, p := range policies {
		if err := p.validate(); err != nil {
			errs = append(errs, fmt.Errorf("repair policy %d (%s=%s): %w", i, p.ConditionType, p.ConditionStatus, err))
		}
		reason, err := regexp.Compile(p.ReasonRegex)
		if err != nil {
			continue // validate says so
		}
		rule := repairRule{policy: p, reason: reason, rank: slices.Index(priorities, p.Priority)}
		if p.ReasonRegex == "" {
			fallbacks++
			r.fallback = &rule
			continue
		}
		r.rules = append(r.rules, rule)
	}
	if fallbacks != 1 {
		errs = append(errs, fmt.Errorf("%d repair policies have no reason; exactly one must", fallbacks))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return r, nil
}

// validate returns all that is wrong with a policy by itself.
func (p *RepairPolicy) validate() error {
	var errs []error
	wrong := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	wrong(p.ConditionType == "", "its condition type is empty")
	wrong(!slices.Contains([]string{"True", "False", "Unknown"}, p.ConditionStatus), "its condition status is %q; it may be True, False or Unknown", p.ConditionStatus)
	wrong(p.Toleration < 0, "its toleration is %s; it may be 0s or more", p.Toleration)
	wrong(p.TerminationGracePeriod != nil && *p.TerminationGracePeriod < 0, "its termination grace period is negative")
	wrong(p.Priority < 0 || p.Priority > priorityMax, "its priority is %d; it may be 0 to %d", p.Priority, priorityMax)
	wrong(p.Action != ReplaceNode && p.Action != RebootNode, "its action is %q; it may be %s or %s", p.Action, ReplaceNode, RebootNode)
	wrong(p.ReasonRegex == "" && p.Action == RebootNode, "it has no reason, so its action must be %s", ReplaceNode)
	_, err := regexp.Compile(p.ReasonRegex)
	return errors.Join(append(errs, err)...)
}

// Ailments returns what the policies say of a Node with these conditions. Conditions count from
// notBefore on, if they are older.
func (r *RepairRules) Ailments(conditions []lifecycle.NodeCondition, notBefore time.Time) []cluster.Ailment {
	if r == nil {
		return nil
	}
	var found []cluster.Ailment
	for _, c := range conditions {
		matched, isKnown := false, r.fallback.is(c)
		for i := range r.rules {
			if rule := &r.rules[i]; rule.is(c) {
				isKnown = true
				if rule.reason.MatchString(c.Reason) {
					matched = true
					found = append(found, rule.ailment(c, notBefore))
				}
			}
		}
		if isKnown && !matched {
			found = append(found, r.fallback.ailment(c, notBefore))
		}
	}
	return found
}

// is reports whether a rule is about a condition, whatever its reason.
func (r *repairRule) is(c lifecycle.NodeCondition) bool {
	return r.policy.ConditionType == c.Type && r.policy.ConditionStatus == c.Status
}

func (r *repairRule) ailment(c lifecycle.NodeCondition, notBefore time.Time) cluster.Ailment {
	since := c.Since
	if since.Before(notBefore) {
		since = notBefore
	}
	a := cluster.Ailment{
		Condition: c.Type, Status: c.Status, Reason: c.Reason, Due: since.Add(r.policy.Toleration),
		Rank: r.rank, Reboot: r.policy.Action == RebootNode,
	}
	if grace := r.policy.TerminationGracePeriod; grace != nil {
		a.Bound = cluster.Bound{IsSet: true, Within: *grace}
	}
	return a
}
