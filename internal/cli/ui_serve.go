package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decision/whatif"
	"github.com/dovetail-sh/dovetail/internal/operator"
	"github.com/dovetail-sh/dovetail/internal/view"
	"github.com/dovetail-sh/dovetail/internal/view/web"
)

// servePages answers on a port of this computer until the context ends: the page of a change here, with the rights
// of who asks, and all others by the controller at an address.
func servePages(ctx context.Context, address string, ask web.WhatIf, stdout io.Writer) error {
	to, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("--address: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /whatif", web.WhatIfHandler(time.Now, ask))
	mux.Handle("/", &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }})
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: operator.LoopbackOnly(mux), ReadHeaderTimeout: topPatience}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	fmt.Fprintf(stdout, "http://%s/\n", listener.Addr())
	if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// asker answers the page of a change as dovetail whatif does, one question at a time.
type asker struct {
	flags whatIfFlags
	busy  sync.Mutex
}

func (a *asker) ask(ctx context.Context, q *web.Question) (*view.WhatIf, error) {
	change, err := changeOf(q)
	if err != nil {
		return nil, err
	}
	if !a.busy.TryLock() {
		return nil, errors.New("another change is being worked out: ask again in some seconds")
	}
	defer a.busy.Unlock()
	asked, err := a.flags.question(ctx, change, time.Now())
	if err != nil {
		return nil, err
	}
	return asked.answer()
}

// changeOf reads what is to be different.
func changeOf(q *web.Question) (*whatif.Change, error) {
	change := &whatif.Change{Policy: q.Policy, Settings: fieldsOf(q.Settings, "\n"), WithoutTypes: fieldsOf(q.Without, ",")}
	if q.Spot != "" {
		share, err := parseShare(q.Spot)
		if err != nil {
			return nil, err
		}
		change.Spot = &share
	}
	var err error
	if q.Pools != "" {
		change.Pools, change.Notes, err = whatif.ParsePools("the YAML", q.Pools)
	}
	return change, err
}

// fieldsOf returns the parts of a text that are not empty.
func fieldsOf(text, between string) (parts []string) {
	for part := range strings.SplitSeq(text, between) {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}
