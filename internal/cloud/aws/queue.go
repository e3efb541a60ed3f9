package aws

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"golang.org/x/sync/errgroup"
)

const (
	// messagesAtOnce is how many messages are taken from the queue, and handled, at once.
	messagesAtOnce = 10
	// hiddenFor is how long, in seconds, a message that is being handled is not given out
	// again; waitFor is how long the queue may take to answer.
	hiddenFor, waitFor = 20, 20
	// queueRetry is the pause after the queue could not be read.
	queueRetry = 10 * time.Second
	// noOp is the kind of messages that nothing follows from.
	noOp = "no_op"
)

// queueReader reads the interruption queue.
type queueReader struct {
	opts    *Options
	clients *clients
	notify  *notifier
	url     string // empty: not known yet
}

func (q *queueReader) watch(ctx context.Context) {
	for ctx.Err() == nil {
		err := q.read(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		q.opts.Log.Error("interruption queue could not be read, will try again", "queue", q.opts.InterruptionQueue, "error", err)
		pause(ctx, queueRetry)
	}
}

// read handles the messages that are there, or come within a while.
func (q *queueReader) read(ctx context.Context) error {
	if q.url == "" {
		out, err := q.clients.SQS.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &q.opts.InterruptionQueue})
		if err != nil {
			return fmt.Errorf("find queue: %w", err)
		}
		q.url = aws.ToString(out.QueueUrl)
	}
	out, err := q.clients.SQS.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &q.url, MaxNumberOfMessages: messagesAtOnce, VisibilityTimeout: hiddenFor, WaitTimeSeconds: waitFor,
		MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{sqstypes.MessageSystemAttributeNameSentTimestamp},
	})
	if err != nil {
		return fmt.Errorf("receive messages: %w", err)
	}
	var group errgroup.Group
	for i := range out.Messages {
		group.Go(func() error { return q.handle(ctx, &out.Messages[i]) })
	}
	return group.Wait()
}

// handle reports what a message says and deletes it. A malformed one is deleted, too: it
// would come back for ever. One that could not be acted on stays in the queue and comes back.
func (q *queueReader) handle(ctx context.Context, message *sqstypes.Message) error {
	notices, sent, err := parseMessage(aws.ToString(message.Body))
	if err != nil {
		q.opts.Log.Warn("message of the interruption queue is malformed and was deleted", "message", aws.ToString(message.MessageId), "error", err)
	}
	kind := noOp
	for _, n := range notices {
		kind = string(n.Kind)
		if _, err := q.notify.forward(ctx, n); err != nil {
			q.opts.Log.Error("notice could not be acted on, will try again", "kind", n.Kind, "instance", n.InstanceID, "error", err)
			return nil
		}
	}
	if millis, err := strconv.ParseInt(message.Attributes[string(sqstypes.MessageSystemAttributeNameSentTimestamp)], 10, 64); err == nil && sent.IsZero() {
		sent = time.UnixMilli(millis)
	}
	if _, err := q.clients.SQS.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &q.url, ReceiptHandle: message.ReceiptHandle}); err != nil {
		return fmt.Errorf("delete message: %w", err)
	}
	if q.opts.Handled != nil {
		q.opts.Handled(kind, q.opts.Now().Sub(sent))
	}
	return nil
}
