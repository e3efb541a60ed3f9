// Package browser has the tests of the pages in a browser: Debian's Chromium, driven over its own protocol.
// Without one they are skipped.
package browser

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/testkit/session"
	"github.com/dovetail-sh/dovetail/internal/view/live"
	"github.com/dovetail-sh/dovetail/internal/view/web"
)

// site is the pages of a session, served on loopback.
type site struct {
	*httptest.Server
	session *session.Session
	// sent counts bytes of answers, as they go over the wire.
	sent atomic.Int64
}

func serve(t *testing.T, nodes int) *site {
	t.Helper()
	s := &site{session: session.New(t, nodes)}
	views := &live.Views{Latest: s.session.Latest, Now: time.Now}
	mux := http.NewServeMux()
	mux.Handle(live.Path+"/", views.Handler())
	mux.Handle("/", web.Handler(views))
	s.Server = httptest.NewUnstartedServer(mux)
	s.Listener = counted{s.Listener, &s.sent}
	s.Start()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// counted counts what is written to its connections.
type counted struct {
	net.Listener
	sent *atomic.Int64
}

func (c counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	return countedConn{conn, c.sent}, err
}

type countedConn struct {
	net.Conn
	sent *atomic.Int64
}

func (c countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.sent.Add(int64(n))
	return n, err
}
