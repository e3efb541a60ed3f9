package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	providerv1 "github.com/dovetail-sh/dovetail/api/provider/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote/wire"
)

// Watch reports the provider's notices, one at a time, until the context ends. A notice is confirmed
// after report has returned nil. After an error the stream is opened again, and the provider repeats
// what was not confirmed.
func (p *Provider) Watch(ctx context.Context, report func(context.Context, cloud.Notice) error) {
	wait := retryFirst
	for ctx.Err() == nil {
		confirmed, err := p.watch(ctx, report)
		if confirmed {
			wait = retryFirst
		}
		if ctx.Err() == nil {
			p.client.opts.Log.Debug("the stream of notices ended", "error", err)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		wait = min(2*wait, retryMost)
	}
}

// watch reads one stream. confirmed reports whether a notice was confirmed.
func (p *Provider) watch(ctx context.Context, report func(context.Context, cloud.Notice) error) (confirmed bool, err error) {
	if err := p.client.ready(ctx); err != nil {
		return false, err
	}
	if !p.client.can(providerv1.Capability_CAPABILITY_NOTICES) {
		return false, errors.New("the provider sends no notices")
	}
	ctx, cancel := p.client.stream(ctx)
	defer cancel()
	silence := time.AfterFunc(p.client.opts.Deadlines.Silence, cancel)
	defer silence.Stop()
	stream, err := p.client.rpc.Notices(ctx)
	if err == nil {
		err = stream.Send(&providerv1.NoticeAck{})
	}
	for err == nil {
		silence.Reset(p.client.opts.Deadlines.Silence)
		var message *providerv1.Notice
		if message, err = stream.Recv(); err != nil {
			break
		}
		silence.Stop() // the effect of a notice may take longer
		if message.GetId() == "" && message.GetKind() == providerv1.NoticeKind_NOTICE_KIND_UNSPECIFIED {
			continue // it only shows that the stream is alive
		}
		if err = p.notice(ctx, message, report); err == nil {
			err = stream.Send(&providerv1.NoticeAck{Acked: []string{message.GetId()}})
			confirmed = err == nil
		}
	}
	p.client.called("Notices", err)
	if status.Code(err) == codes.Unimplemented {
		p.client.lacks(providerv1.Capability_CAPABILITY_NOTICES)
	}
	return confirmed, err
}

// notice reports one notice; nil: it can be confirmed. What cannot be understood is confirmed, too:
// to get it again would not help.
func (p *Provider) notice(ctx context.Context, message *providerv1.Notice, report func(context.Context, cloud.Notice) error) error {
	n, known, err := wire.ParseNotice(message)
	if err != nil {
		_ = p.client.broke(RuleNotice, fmt.Errorf("message of Notices: %w", err))
		return nil
	}
	if !known {
		_ = p.client.broke(RuleNotice, fmt.Errorf("message of Notices: kind %d is not known", message.GetKind()))
		return nil
	}
	return report(ctx, n)
}
