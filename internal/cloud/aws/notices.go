package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"golang.org/x/sync/errgroup"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

const (
	// messagesAtOnce is how many messages are taken from the queue, and handled, at once.
	messagesAtOnce = 10
	// hiddenFor is how long, in seconds, a message that is being handled is not given out
	// again; waitFor is how long the queue may take to answer.
	hiddenFor, waitFor = 20, 20
	// queueRetry is the pause after the queue could not be read.
	queueRetry = 10 * time.Second
	// messageBytesMost bounds what is read of a message; more is a stranger's.
	messageBytesMost = 256 << 10
	// noticeSpot is how long a spot instance has from its notice.
	noticeSpot = 2 * time.Minute
	// statusEvery is how often EC2 is asked which instances fail its checks; brokenAfter is
	// how long they must have.
	statusEvery = time.Minute
	brokenAfter = 2 * time.Minute
	// listKept is for how long the list of our instances tells which notices are about others'.
	// It is less than the time for which what was seen is remembered.
	listKept = 10 * time.Minute
	// noOp is the kind of messages that nothing follows from.
	noOp = "no_op"
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

// Watch reads the interruption queue, if there is one, EC2's status checks, and whatever else
// is said of machines, blocks and zones.
func (p *Provider) Watch(ctx context.Context, tell func(context.Context, cloud.Notice) error) {
	var loops sync.WaitGroup
	if p.opts.InterruptionQueue != "" {
		loops.Go(func() { p.watchQueue(ctx, tell) })
	}
	loops.Go(func() { p.watchStatus(ctx, tell) })
	if p.opts.Reservations {
		loops.Go(func() { p.watchBlocks(ctx, tell) })
	}
	if p.opts.ZonalShift {
		loops.Go(func() { p.watchShifts(ctx, tell) })
	}
	loops.Wait()
}

func (p *Provider) watchQueue(ctx context.Context, tell func(context.Context, cloud.Notice) error) {
	var url string
	for ctx.Err() == nil {
		err := p.readQueue(ctx, &url, tell)
		if err == nil || ctx.Err() != nil {
			continue
		}
		p.opts.Log.Error("interruption queue could not be read, will try again", "queue", p.opts.InterruptionQueue, "error", err)
		pause(ctx, queueRetry)
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// readQueue handles the messages that are there, or come within a while.
func (p *Provider) readQueue(ctx context.Context, url *string, tell func(context.Context, cloud.Notice) error) error {
	if *url == "" {
		out, err := p.clients.SQS.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &p.opts.InterruptionQueue})
		if err != nil {
			return fmt.Errorf("find queue: %w", err)
		}
		*url = aws.ToString(out.QueueUrl)
	}
	out, err := p.clients.SQS.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: url, MaxNumberOfMessages: messagesAtOnce, VisibilityTimeout: hiddenFor, WaitTimeSeconds: waitFor,
		MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{sqstypes.MessageSystemAttributeNameSentTimestamp},
	})
	if err != nil {
		return fmt.Errorf("receive messages: %w", err)
	}
	var group errgroup.Group
	for i := range out.Messages {
		group.Go(func() error { return p.handle(ctx, *url, &out.Messages[i], tell) })
	}
	return group.Wait()
}

// handle tells what a message says and deletes it. A malformed one is deleted, too: it
// would come back for ever. One that could not be acted on comes back by itself.
func (p *Provider) handle(ctx context.Context, url string, message *sqstypes.Message, tell func(context.Context, cloud.Notice) error) error {
	notices, sent, err := parseMessage(aws.ToString(message.Body))
	if err != nil {
		p.opts.Log.Warn("message of the interruption queue is malformed and was deleted", "message", aws.ToString(message.MessageId), "error", err)
	}
	kind := noOp
	for _, n := range notices {
		kind = string(n.Kind)
		if _, err := p.pass(ctx, n, tell); err != nil {
			p.opts.Log.Error("notice could not be acted on, will try again", "kind", n.Kind, "instance", n.InstanceID, "error", err)
			return nil
		}
	}
	if millis, err := strconv.ParseInt(message.Attributes[string(sqstypes.MessageSystemAttributeNameSentTimestamp)], 10, 64); err == nil && sent.IsZero() {
		sent = time.UnixMilli(millis)
	}
	if _, err := p.clients.SQS.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: message.ReceiptHandle}); err != nil {
		return fmt.Errorf("delete message: %w", err)
	}
	if p.opts.Heard != nil {
		p.opts.Heard(kind, p.opts.Now().Sub(sent))
	}
	return nil
}

// pass tells a notice if it is about a machine of ours.
func (p *Provider) pass(ctx context.Context, n cloud.Notice, tell func(context.Context, cloud.Notice) error) (ours bool, err error) {
	m, err := p.noticed(ctx, n.InstanceID)
	if errors.Is(err, cloud.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if n.Kind == cloud.ReservationReclaimed && m.Reservation != "" {
		p.reserved.learn(m.Reservation, 0)
	}
	n.InstanceID = m.ProviderID()
	return true, tell(ctx, n)
}

// noticed returns the machine with an EC2 id, if it is ours.
func (p *Provider) noticed(ctx context.Context, id string) (machine, error) {
	p.mu.Lock()
	k, ok := p.known[id]
	listed := p.listed
	p.mu.Unlock()
	if ok {
		return k.machine, nil
	}
	if m, ok := p.ledger.machines()[id]; ok {
		return m, nil
	}
	// Most notices are about others' instances: EC2 is not asked about what is not in the list
	// that is read every few minutes, unless that is too old to say.
	if _, valid := instanceID("aws:///zone/" + id); !valid || p.opts.Now().Sub(listed) < listKept {
		return machine{}, cloud.ErrNotFound
	}
	m, ok, err := p.looks.get(ctx, id)
	if err == nil && !ok {
		err = cloud.ErrNotFound
	}
	return m, err
}

// watchStatus asks EC2 for instances that fail its checks or have maintenance ahead.
func (p *Provider) watchStatus(ctx context.Context, tell func(context.Context, cloud.Notice) error) {
	unwell := map[sighting]bool{}
	for ctx.Err() == nil {
		err := p.readStatus(ctx, unwell, tell)
		switch {
		case ctx.Err() != nil:
		case reasonOf(errorCode(err), "") == "Unauthorized":
			p.opts.Log.Error("status checks of instances are not watched: not allowed", "error", err)
			return
		case err != nil:
			p.opts.Log.Error("status checks of instances could not be read, will try again", "error", err)
		}
		pause(ctx, statusEvery)
	}
}

// sighting is something bad that EC2 says of an instance.
type sighting struct {
	instance string
	kind     cloud.NoticeKind
}

// readStatus tells what EC2 says of instances. Unwell is what it said the last time.
func (p *Provider) readStatus(ctx context.Context, unwell map[sighting]bool, tell func(context.Context, cloud.Notice) error) error {
	told := map[string]bool{}
	seen := map[sighting]bool{}
	var errs []error
	for _, query := range []types.Filter{
		filter("instance-status.status", "impaired"), filter("system-status.status", "impaired"),
		filter("event.code", "instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop"),
	} {
		pages := ec2.NewDescribeInstanceStatusPaginator(p.clients.EC2, &ec2.DescribeInstanceStatusInput{Filters: []types.Filter{query}})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return fmt.Errorf("describe instance status: %w", err)
			}
			for i := range page.InstanceStatuses {
				n, bad := noticeOf(&page.InstanceStatuses[i], p.opts.Now())
				if !bad || told[n.InstanceID] {
					continue
				}
				told[n.InstanceID] = true
				ours, err := p.pass(ctx, n, tell)
				errs = append(errs, err) // one is no reason not to tell the others
				at := sighting{n.InstanceID, n.Kind}
				if seen[at] = ours; ours && !unwell[at] {
					p.opts.Meter.Unhealthy(categoryOf(n.Kind))
				}
			}
		}
	}
	clear(unwell)
	maps.Copy(unwell, seen)
	return errors.Join(errs...)
}

// categoryOf returns what a status check is about, as metrics have it.
func categoryOf(kind cloud.NoticeKind) string {
	if kind == cloud.MaintenanceScheduled {
		return "event_status"
	}
	return string(kind)
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
