package awssim

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"
)

const (
	// pollStep is how often a long poll looks again.
	pollStep = 50 * time.Millisecond
	// queueMax bounds a queue; the oldest messages go first.
	queueMax = 20_000
	// retention is how long a message is kept.
	retention = 5 * time.Minute
	// defaultVisibility is how long a received message is hidden if nobody says otherwise.
	defaultVisibility = 30 * time.Second
)

// sqs has the queues.
type sqs struct {
	base *base

	byName map[string]*queue
}

type queue struct {
	name     string
	messages []*message
}

type message struct {
	id, body      string
	sent, visible time.Time
	received      int
	receipt       string
}

func (s *sqs) operations() map[string]operation {
	return map[string]operation{
		"GetQueueUrl": s.getQueueURL, "ReceiveMessage": s.receiveMessage, "DeleteMessage": s.deleteMessage, "SendMessage": s.sendMessage,
	}
}

func (s *sqs) queueURL(name string) string {
	return "https://sqs." + s.base.opts.Region + ".amazonaws.com/" + s.base.opts.AccountID + "/" + name
}

func (s *sqs) queue(c *call) (*queue, error) {
	url, _ := c.doc["QueueUrl"].(string)
	for name, q := range s.byName {
		if url == s.queueURL(name) {
			return q, nil
		}
	}
	return nil, noQueue()
}

func noQueue() error {
	return &apiError{http.StatusBadRequest, "QueueDoesNotExist", "The specified queue does not exist."}
}

func (s *sqs) getQueueURL(c *call) (any, error) {
	name, _ := c.doc["QueueName"].(string)
	if s.byName[name] == nil {
		return nil, noQueue()
	}
	return map[string]any{"QueueUrl": s.queueURL(name)}, nil
}

func (s *sqs) sendMessage(c *call) (any, error) {
	q, err := s.queue(c)
	if err != nil {
		return nil, err
	}
	body, _ := c.doc["MessageBody"].(string)
	if body == "" {
		return nil, fail("MissingParameter", "The request must contain the parameter MessageBody.")
	}
	m := s.send(q, body, c.now)
	return map[string]any{"MessageId": m.id, "MD5OfMessageBody": md5Hex(body)}, nil
}

func (s *sqs) send(q *queue, body string, now time.Time) *message {
	m := &message{id: s.base.id("msg"), body: body, sent: now, visible: now}
	q.messages = append(q.messages, m)
	if len(q.messages) > queueMax {
		q.messages = q.messages[1:]
	}
	return m
}

func (s *sqs) receiveMessage(c *call) (any, error) {
	q, err := s.queue(c)
	if err != nil {
		return nil, err
	}
	number := func(key string, or float64) float64 {
		if v, ok := c.doc[key].(float64); ok {
			return v
		}
		return or
	}
	most, wait := int(number("MaxNumberOfMessages", 1)), time.Duration(number("WaitTimeSeconds", 0))*time.Second
	if most < 1 || most > 10 {
		return nil, fail("InvalidParameterValue", "Value %d for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided.", most)
	}
	if wait < 0 || wait > 20*time.Second {
		return nil, fail("InvalidParameterValue", "Value for parameter WaitTimeSeconds is invalid. Reason: Must be >= 0 and <= 20, if provided.")
	}
	q.messages = slices.DeleteFunc(q.messages, func(m *message) bool { return c.now.Sub(m.sent) >= retention })
	hidden := time.Duration(number("VisibilityTimeout", defaultVisibility.Seconds())) * time.Second
	var got []map[string]any
	for _, m := range q.messages {
		if len(got) == most {
			break
		}
		if m.visible.After(c.now) {
			continue
		}
		m.received++
		m.visible, m.receipt = c.now.Add(hidden), s.base.id("receipt")
		got = append(got, map[string]any{
			"MessageId": m.id, "ReceiptHandle": m.receipt, "Body": m.body, "MD5OfBody": md5Hex(m.body),
			"Attributes": map[string]string{"SentTimestamp": strconv.FormatInt(m.sent.UnixMilli(), 10), "ApproximateReceiveCount": strconv.Itoa(m.received)},
		})
	}
	if c.began.IsZero() {
		c.began = c.now
	}
	if _, still := s.base.clock.(*Manual); len(got) == 0 && c.now.Sub(c.began) < wait && c.ctx.Err() == nil && !still {
		return nil, &tryAgain{pollStep}
	}
	if len(got) == 0 {
		return map[string]any{}, nil
	}
	return map[string]any{"Messages": got}, nil
}

func (s *sqs) deleteMessage(c *call) (any, error) {
	q, err := s.queue(c)
	if err != nil {
		return nil, err
	}
	receipt, _ := c.doc["ReceiptHandle"].(string)
	if receipt == "" {
		return nil, &apiError{http.StatusBadRequest, "ReceiptHandleIsInvalid", "The input receipt handle is invalid."}
	}
	// An old receipt deletes nothing, and that is no error.
	q.messages = slices.DeleteFunc(q.messages, func(m *message) bool { return m.receipt == receipt })
	return map[string]any{}, nil
}

func md5Hex(text string) string {
	sum := md5.Sum([]byte(text)) //nolint:gosec // see above
	return hex.EncodeToString(sum[:])
}

// notify puts an EventBridge event on the interruption queue.
func (s *sqs) notify(source, kind string, instanceID string, detail map[string]any, now time.Time) {
	body, err := json.Marshal(map[string]any{
		"version": "0", "id": s.base.id("event"), "detail-type": kind, "source": source, "account": s.base.opts.AccountID,
		"time": now.UTC().Format(time.RFC3339), "region": s.base.opts.Region,
		"resources": []string{s.base.arn("ec2", "instance/"+instanceID)}, "detail": detail,
	})
	if err != nil {
		panic(err) // maps of texts
	}
	s.send(s.byName[s.base.opts.Queue], string(body), now)
}
