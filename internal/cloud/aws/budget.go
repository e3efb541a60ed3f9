package aws

import (
	"context"
	"errors"
	"sync"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	"golang.org/x/time/rate"
)

// pace is how often an operation may be called: so many a second on average, and so many
// at once after a rest.
type pace struct {
	perSecond float64
	burst     int
}

// paces are below EC2's own token buckets, so that others in the account find something
// left and nothing is refused. Operations that are not listed are reads: paceElse.
var paces = map[string]pace{ //nolint:gochecknoglobals // a table
	"CreateFleet":          {4, 40},
	"CreateLaunchTemplate": {4, 40},
	"DeleteLaunchTemplate": {2, 10},
	"RunInstances":         {1, 4},
	"TerminateInstances":   {4, 80},
	"CreateTags":           {8, 80},
	// IAM's and Pricing's are not published; these are seldom called.
	"CreateInstanceProfile": {2, 5}, "AddRoleToInstanceProfile": {2, 5},
	"RemoveRoleFromInstanceProfile": {2, 5}, "DeleteInstanceProfile": {2, 5},
}

// paceElse is that of reads, each operation by itself.
var paceElse = pace{10, 50} //nolint:gochecknoglobals // a table

const (
	// After a refusal by throttling the pace is halved, to no less than this part of the
	// full one; every call that is answered gives a step of it back.
	paceLeast = 1.0 / 16
	paceStep  = 1.0 / 32
)

// Call is one request to AWS and what became of it.
type Call struct {
	Service, Operation string
	// Code of the error; empty: there was none.
	Code string
	Took time.Duration
}

// budget holds all calls to their paces, and slows down when AWS says so all the same.
type budget struct {
	now    func() time.Time
	called func(Call) // may be nil

	mu    sync.Mutex
	rates map[string]*rate.Limiter
}

func newBudget(now func() time.Time, called func(Call)) *budget {
	return &budget{now: now, called: called, rates: map[string]*rate.Limiter{}}
}

func paceOf(operation string) pace {
	if p, ok := paces[operation]; ok {
		return p
	}
	return paceElse
}

func (b *budget) limiter(operation string) *rate.Limiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.rates[operation]
	if l == nil {
		p := paceOf(operation)
		l = rate.NewLimiter(rate.Limit(p.perSecond), p.burst)
		b.rates[operation] = l
	}
	return l
}

// spent tells how much of an operation's burst is used up, from 0 to 1.
func (b *budget) spent(operation string) float64 {
	left := b.limiter(operation).TokensAt(b.now()) / float64(paceOf(operation).burst)
	return 1 - min(1, max(0, left))
}

// install adds the budget to a client's stack: each attempt, repeats included, waits for
// its turn and is counted.
func (b *budget) install(stack *middleware.Stack) error {
	return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("Budget", b.handle), "Retry", middleware.After)
}

func (b *budget) handle(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
	operation := awsmiddleware.GetOperationName(ctx)
	l := b.limiter(operation)
	if err := l.Wait(ctx); err != nil {
		return middleware.FinalizeOutput{}, middleware.Metadata{}, err
	}
	started := b.now()
	out, metadata, err := next.HandleFinalize(ctx, in)
	code := errorCode(err)
	b.adapt(operation, l, isThrottling(code))
	if b.called != nil {
		b.called(Call{awsmiddleware.GetServiceID(ctx), operation, code, b.now().Sub(started)})
	}
	return out, metadata, err
}

// adapt slows an operation down when it was throttled, and lets it recover.
func (b *budget) adapt(operation string, l *rate.Limiter, throttled bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	full := paceOf(operation).perSecond
	now := b.now()
	if throttled {
		l.SetLimitAt(now, rate.Limit(max(full*paceLeast, float64(l.Limit())/2)))
		l.AllowN(now, int(l.TokensAt(now))) // what was saved up is not there
		return
	}
	l.SetLimitAt(now, rate.Limit(min(full, float64(l.Limit())+full*paceStep)))
}

// errorCode returns AWS' code of an error; "Unknown" of one that has none.
func errorCode(err error) string {
	var api smithy.APIError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &api):
		return api.ErrorCode()
	default:
		return "Unknown"
	}
}

func isThrottling(code string) bool {
	switch code {
	case "RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "TooManyRequestsException", "RequestThrottled", "RequestThrottledException":
		return true
	}
	return false
}
