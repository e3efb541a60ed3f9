package cloud

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// ConditionNoticer is a provider whose notices are seen inside the instance alone, by an agent that writes a condition on
// the Node.
type ConditionNoticer interface {
	// ConditionNotices returns the conditions that are notices. They never change.
	ConditionNotices() []ConditionNotice
}

// ConditionNotice says that a Node with a condition is a Node whose instance there is a notice about.
type ConditionNotice struct {
	ConditionType, ConditionStatus string
	// ReasonRegex is searched for in the condition's reason; empty: any reason.
	ReasonRegex string
	// Kind is one of Reclaimed, RebalanceRecommended and MaintenanceScheduled.
	Kind NoticeKind
	// EndsRegex finds in the condition's message when the instance is gone: its first group is a time of RFC 1123 or
	// RFC 3339. Empty: the message does not say.
	EndsRegex string
	// Within is how long after the condition's transition the instance is gone, unless the message says when.
	Within time.Duration
}

// NodeNotices are the ConditionNotices of a provider, ready to be asked about Nodes. A nil *NodeNotices has none.
type NodeNotices struct{ all []nodeNotice }

type nodeNotice struct {
	ConditionNotice

	reason, ends *regexp.Regexp
}

// NewNodeNotices returns the notices of a set, or all that is wrong with it. It returns nil for an empty set.
func NewNodeNotices(set []ConditionNotice) (*NodeNotices, error) {
	if len(set) == 0 {
		return nil, nil
	}
	r := &NodeNotices{}
	var errs []error
	for i, n := range set {
		made, err := newNodeNotice(n)
		if err != nil {
			errs = append(errs, fmt.Errorf("condition notice %d (%s=%s): %w", i, n.ConditionType, n.ConditionStatus, err))
		}
		r.all = append(r.all, made)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return r, nil
}

func newNodeNotice(n ConditionNotice) (nodeNotice, error) {
	var errs []error
	wrong := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	wrong(n.ConditionType == "", "its condition type is empty")
	wrong(!slices.Contains([]string{"True", "False", "Unknown"}, n.ConditionStatus), "its condition status is %q; it may be True, False or Unknown", n.ConditionStatus)
	wrong(!slices.Contains([]NoticeKind{Reclaimed, RebalanceRecommended, MaintenanceScheduled}, n.Kind), "its kind is %q; it may be %s, %s or %s", n.Kind, Reclaimed, RebalanceRecommended, MaintenanceScheduled)
	wrong(n.Within < 0, "its time is %s; it may be 0s or more", n.Within)
	reason, err := regexp.Compile(n.ReasonRegex)
	errs = append(errs, err)
	ends, err := regexp.Compile(n.EndsRegex)
	errs = append(errs, err)
	wrong(err == nil && n.EndsRegex != "" && ends.NumSubexp() != 1, "%q must have one group, which is the time", n.EndsRegex)
	return nodeNotice{n, reason, ends}, errors.Join(errs...)
}

// Of returns the notices that the conditions of a Node are.
func (r *NodeNotices) Of(node *corev1.Node) (notices []Notice) {
	if r == nil {
		return nil
	}
	for i := range r.all {
		n := &r.all[i]
		for j := range node.Status.Conditions {
			c := &node.Status.Conditions[j]
			if string(c.Type) == n.ConditionType && string(c.Status) == n.ConditionStatus && n.reason.MatchString(c.Reason) {
				notices = append(notices, Notice{Kind: n.Kind, InstanceID: node.Spec.ProviderID, Ends: n.when(c)})
			}
		}
	}
	return notices
}

// when returns when the instance is gone.
func (n *nodeNotice) when(c *corev1.NodeCondition) time.Time {
	if n.EndsRegex != "" {
		if found := n.ends.FindStringSubmatch(c.Message); found != nil {
			for _, layout := range []string{http.TimeFormat, "Mon, 02 Jan 2006 15:04:05 UTC", time.RFC1123Z, time.RFC3339} {
				if at, err := time.Parse(layout, found[1]); err == nil {
					return at.UTC()
				}
			}
		}
	}
	return c.LastTransitionTime.Add(n.Within).UTC()
}
