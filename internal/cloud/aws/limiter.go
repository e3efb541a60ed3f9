package aws

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"golang.org/x/time/rate"
)

// pace is how often an operation may be called: so many calls a second on average, and so many
// at once after a pause.
type pace struct {
	perSecond float64
	burst     int
}

// Buckets that several operations of EC2 draw from.
const (
	bucketReads   = "reads"
	bucketChanges = "changes"
)

// paces are below EC2's own token buckets, so that others in the account find something
// left and nothing is refused.
var paces = map[string]pace{ //nolint:gochecknoglobals // a table
	bucketReads:    {16, 80},
	bucketChanges:  {4, 40},
	"RunInstances": {1, 4}, "TerminateInstances": {4, 80}, "CreateTags": {8, 80},
}

// paceElse is the pace of each operation of the other services.
var paceElse = pace{8, 40} //nolint:gochecknoglobals // a table

func paceOf(bucket string) pace {
	if p, ok := paces[bucket]; ok {
		return p
	}
	return paceElse
}

// bucketOf returns the bucket that an operation draws from.
func bucketOf(operation string) string {
	switch operation {
	case "CreateFleet", "CreateLaunchTemplate", "DeleteLaunchTemplate", "RebootInstances":
		return bucketChanges
	case "DescribeCluster": // of EKS
		return operation
	}
	if strings.HasPrefix(operation, "Describe") {
		return bucketReads
	}
	return operation
}

const (
	// paceLeast is how far throttling lowers a pace: each refusal halves it, down to this part of
	// the full one. Every call that is answered raises it again.
	paceLeast = 1.0 / 16
	paceStep  = 1.0 / 32
)

// Call is one request to AWS and what became of it: one attempt of it, or all together.
type Call struct {
	Service, Operation string
	// Status is that of the HTTP answer, the last one; 0: there was none.
	Status int
	// Attempts is how many there were; 0: the call is one of them.
	Attempts int
	Took     time.Duration
}

// limiter holds all calls to their paces, and slows down when AWS says so all the same.
type limiter struct {
	now    func() time.Time
	called func(Call) // may be nil

	mu    sync.Mutex
	rates map[string]*rate.Limiter // by bucket
	paid  map[string]int           // calls that have waited already, by operation
}

func newLimiter(now func() time.Time, called func(Call)) *limiter {
	return &limiter{now: now, called: called, rates: map[string]*rate.Limiter{}, paid: map[string]int{}}
}

func (l *limiter) bucket(bucket string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.rates[bucket]
	if r == nil {
		p := paceOf(bucket)
		r = rate.NewLimiter(rate.Limit(p.perSecond), p.burst)
		l.rates[bucket] = r
	}
	return r
}

// prepay waits until an operation may be called, and pays for the next call of it.
func (l *limiter) prepay(ctx context.Context, operation string) error {
	if err := l.bucket(bucketOf(operation)).Wait(ctx); err != nil {
		return fmt.Errorf("wait for a turn of %s: %w", operation, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paid[operation]++
	return nil
}

// pay waits until a call may be sent, unless prepay has waited for it.
func (l *limiter) pay(ctx context.Context, operation string) error {
	l.mu.Lock()
	isPaid := l.paid[operation] > 0
	if isPaid {
		l.paid[operation]--
	}
	l.mu.Unlock()
	if isPaid {
		return nil
	}
	return l.bucket(bucketOf(operation)).Wait(ctx)
}

// left returns how much is left of the burst that an operation draws from, from 0 to 1.
func (l *limiter) left(operation string) float64 {
	bucket := bucketOf(operation)
	return min(1, max(0, l.bucket(bucket).TokensAt(l.now())/float64(paceOf(bucket).burst)))
}

// install adds the limiter to a client's stack: each attempt, repeats included, waits until it
// may be sent, and is counted.
func (l *limiter) install(stack *middleware.Stack) error {
	if err := stack.Initialize.Add(middleware.InitializeMiddlewareFunc("Count", l.count), middleware.Before); err != nil {
		return err
	}
	return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("Budget", l.handle), "Retry", middleware.After)
}

// attemptsKey has the count of a request's attempts, an *int, among the values of its stack.
type attemptsKey struct{}

// count reports a whole request.
func (l *limiter) count(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
	attempts := new(int)
	started := l.now()
	out, metadata, err := next.HandleInitialize(middleware.WithStackValue(ctx, attemptsKey{}, attempts), in)
	if l.called != nil && *attempts > 0 {
		l.called(Call{awsmiddleware.GetServiceID(ctx), awsmiddleware.GetOperationName(ctx), statusOf(metadata, err), *attempts, l.now().Sub(started)})
	}
	return out, metadata, err
}

// statusOf returns the HTTP status of an answer; 0: there was none.
func statusOf(metadata middleware.Metadata, err error) int {
	var failed *smithyhttp.ResponseError
	if errors.As(err, &failed) {
		return failed.HTTPStatusCode()
	}
	if answer, ok := awsmiddleware.GetRawResponse(metadata).(*smithyhttp.Response); ok && err == nil {
		return answer.StatusCode
	}
	return 0
}

func (l *limiter) handle(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
	operation := awsmiddleware.GetOperationName(ctx)
	if err := l.pay(ctx, operation); err != nil {
		return middleware.FinalizeOutput{}, middleware.Metadata{}, err
	}
	if attempts, ok := middleware.GetStackValue(ctx, attemptsKey{}).(*int); ok {
		*attempts++
	}
	started := l.now()
	out, metadata, err := next.HandleFinalize(ctx, in)
	l.adapt(bucketOf(operation), isThrottling(errorCode(err)))
	if l.called != nil {
		l.called(Call{Service: awsmiddleware.GetServiceID(ctx), Operation: operation, Status: statusOf(metadata, err), Took: l.now().Sub(started)})
	}
	return out, metadata, err
}

// adapt slows a bucket down when it was throttled, and lets it recover.
func (l *limiter) adapt(bucket string, throttled bool) {
	r := l.bucket(bucket)
	l.mu.Lock()
	defer l.mu.Unlock()
	full := paceOf(bucket).perSecond
	now := l.now()
	if throttled {
		r.SetLimitAt(now, rate.Limit(max(full*paceLeast, float64(r.Limit())/2)))
		r.AllowN(now, int(r.TokensAt(now))) // the bucket is empty
		return
	}
	r.SetLimitAt(now, rate.Limit(min(full, float64(r.Limit())+full*paceStep)))
}
