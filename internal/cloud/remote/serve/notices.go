package serve

import (
	"context"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	providerv1 "github.com/dovetail-sh/dovetail/api/provider/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote/wire"
)

// sender sends notices to one controller, and waits until it has confirmed them.
type sender struct {
	stream grpc.BidiStreamingServer[providerv1.NoticeAck, providerv1.Notice]

	mu sync.Mutex
	// sent counts the notices; their numbers are their IDs. waiting are those not confirmed.
	sent    int
	waiting map[string]chan struct{}
}

// Notices sends the provider's notices. The provider learns that a notice was taken when the
// controller has confirmed it.
func (s *Server) Notices(stream grpc.BidiStreamingServer[providerv1.NoticeAck, providerv1.Notice]) error {
	watcher, able := s.provider.(cloud.Watcher)
	if !able {
		return status.Error(codes.Unimplemented, "the provider sends no notices")
	}
	if _, err := stream.Recv(); err != nil {
		return err
	}
	t := &sender{stream: stream, waiting: map[string]chan struct{}{}}
	ctx, cancel := context.WithCancel(stream.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() { watcher.Watch(ctx, t.report) })
	all.Go(func() { t.keepAlive(ctx, s.opts.Alive) })
	for {
		ack, err := stream.Recv()
		if err != nil {
			return nil // the controller has left, which is no fault
		}
		t.confirm(ack.GetAcked())
	}
}

// report sends a notice and waits for its confirmation.
func (t *sender) report(ctx context.Context, n cloud.Notice) error {
	message := wire.Notice(n)
	confirmed := make(chan struct{})
	t.mu.Lock()
	t.sent++
	message.Id = strconv.Itoa(t.sent)
	t.waiting[message.Id] = confirmed
	err := t.stream.Send(message)
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.waiting, message.Id)
	}()
	if err != nil {
		return err
	}
	select {
	case <-confirmed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *sender) confirm(ids []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		if confirmed := t.waiting[id]; confirmed != nil {
			close(confirmed)
			delete(t.waiting, id)
		}
	}
}

// keepAlive shows the controller that the stream is alive.
func (t *sender) keepAlive(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		t.mu.Lock()
		err := t.stream.Send(&providerv1.Notice{})
		t.mu.Unlock()
		if err != nil {
			return
		}
	}
}
