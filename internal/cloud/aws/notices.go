package aws

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

const (
	// messageBytesMost bounds what is read of a message; more is a stranger's.
	messageBytesMost = 256 << 10
	// noticeSpot is how long a spot instance has from its notice.
	noticeSpot = 2 * time.Minute
	// brokenAfter is how long an instance must have failed EC2's checks.
	brokenAfter = 2 * time.Minute
)

// envelope is a message of EventBridge. It is untrusted input.
type envelope struct {
	Version    string          `json:"version"`
	Source     string          `json:"source"`
	DetailType string          `json:"detail-type"`
	Time       time.Time       `json:"time"`
	Detail     json.RawMessage `json:"detail"`
}

// parseMessage returns the notices in a message of the queue, with bare EC2 ids, and when it
// was sent. A message of a kind that does not matter has none.
func parseMessage(body string) ([]cloud.Notice, time.Time, error) {
	var e envelope
	if len(body) > messageBytesMost {
		return nil, e.Time, fmt.Errorf("read notice: it has %d bytes, more than %d", len(body), messageBytesMost)
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		return nil, e.Time, fmt.Errorf("read notice: %w", err)
	}
	if e.Version != "0" {
		return nil, e.Time, nil
	}
	if e.Source == "aws.health" && e.DetailType == "AWS Health Event" {
		found, err := parseHealth(e.Detail)
		return found, e.Time, err
	}
	kind, known := map[string]cloud.NoticeKind{
		"EC2 Spot Instance Interruption Warning":                 cloud.Reclaimed,
		"EC2 Instance Rebalance Recommendation":                  cloud.RebalanceRecommended,
		"EC2 Instance State-change Notification":                 cloud.Ended,
		"EC2 Capacity Reservation Instance Interruption Warning": cloud.ReservationReclaimed,
	}[e.DetailType]
	if e.Source != "aws.ec2" || !known {
		return nil, e.Time, nil
	}
	var detail struct {
		InstanceID string `json:"instance-id"`
		State      string `json:"state"`
	}
	if err := json.Unmarshal(e.Detail, &detail); err != nil {
		return nil, e.Time, fmt.Errorf("read notice %q: %w", e.DetailType, err)
	}
	n := cloud.Notice{Kind: kind, InstanceID: detail.InstanceID}
	switch kind {
	case cloud.Reclaimed, cloud.ReservationReclaimed:
		n.Ends = e.Time.Add(noticeSpot)
	case cloud.Ended:
		switch detail.State {
		case "stopping", "stopped":
			n.Kind = cloud.Stopped
		case "shutting-down", "terminated":
		default:
			return nil, e.Time, nil
		}
	default:
	}
	return []cloud.Notice{n}, e.Time, nil
}

// parseHealth returns a notice for each instance that a scheduled change is for.
func parseHealth(text json.RawMessage) ([]cloud.Notice, error) {
	var detail struct {
		Service   string `json:"service"`
		Category  string `json:"eventTypeCategory"`
		StartTime string `json:"startTime"`
		Affected  []struct {
			Value string `json:"entityValue"`
		} `json:"affectedEntities"`
	}
	if err := json.Unmarshal(text, &detail); err != nil {
		return nil, fmt.Errorf("read health event: %w", err)
	}
	if detail.Service != "EC2" || detail.Category != "scheduledChange" {
		return nil, nil
	}
	var starts time.Time
	for _, layout := range []string{time.RFC1123, time.RFC3339} {
		if at, err := time.Parse(layout, detail.StartTime); err == nil {
			starts = at
		}
	}
	var found []cloud.Notice
	for _, a := range detail.Affected {
		found = append(found, cloud.Notice{Kind: cloud.MaintenanceScheduled, InstanceID: a.Value, Ends: starts})
	}
	return found, nil
}

// noticeOf returns what a status says, if it is bad.
func noticeOf(s *types.InstanceStatus, now time.Time) (cloud.Notice, bool) {
	n := cloud.Notice{InstanceID: aws.ToString(s.InstanceId)}
	failed := func(summary *types.InstanceStatusSummary) bool {
		return summary != nil && slices.ContainsFunc(summary.Details, func(d types.InstanceStatusDetails) bool {
			return d.Status == types.StatusTypeFailed && d.ImpairedSince != nil && now.Sub(*d.ImpairedSince) >= brokenAfter
		})
	}
	switch {
	case failed(s.InstanceStatus):
		n.Kind = cloud.InstanceBroken
		return n, true
	case failed(s.SystemStatus):
		n.Kind = cloud.SystemBroken
		return n, true
	}
	for _, e := range s.Events {
		if e.NotBefore == nil || strings.HasPrefix(aws.ToString(e.Description), "[Completed]") || strings.HasPrefix(aws.ToString(e.Description), "[Canceled]") {
			continue
		}
		if n.Ends.IsZero() || e.NotBefore.Before(n.Ends) {
			n.Kind, n.Ends = cloud.MaintenanceScheduled, *e.NotBefore
		}
	}
	return n, n.Kind != ""
}

// categoryOf returns what a status check is about, as metrics have it.
func categoryOf(kind cloud.NoticeKind) string {
	if kind == cloud.MaintenanceScheduled {
		return "event_status"
	}
	return string(kind)
}
