// Package browser has the tests of the pages in a browser: Debian's Chromium, driven over its own protocol.
// Without one they are skipped.
package browser

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/testkit/session"
	"github.com/dovetail-sh/dovetail/internal/view"
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
	mux.Handle("/whatif", web.WhatIfHandler(time.Now, func(context.Context, *web.Question) (*view.WhatIf, error) { return s.whatIf(), nil }))
	mux.Handle("/at/", web.HandlerOf(web.Moments{
		List: []web.Moment{{ID: "1.aaaaaa", At: time.Now().Add(-time.Minute)}, {ID: "2.aaaaaa", At: time.Now()}},
		Of:   func(int) (*live.Views, web.Past, error) { return views, past{s.session}, nil },
	}))
	mux.Handle("/", web.Handler(views, past{s.session}))
	s.Server = httptest.NewUnstartedServer(mux)
	s.Listener = counted{s.Listener, &s.sent}
	s.Start()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// whatIf is what a change would do to the nodes of the session: each is replaced.
func (s *site) whatIf() *view.WhatIf {
	v := &view.WhatIf{Head: view.Head{Format: view.Format, Kind: "WhatIf", At: time.Now()}, Changes: []string{"spec.limits.cpu: 4 → 2"}, Presumes: []string{"Prices stay."}}
	snap := s.session.Latest.State().Snapshot
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		v.Drift = append(v.Drift, view.Drift{Node: n.Name, Pool: n.Pool, Reason: "NodePoolDrifted"})
		v.Steps = append(v.Steps, view.WhatIfStep{At: v.At, DoneAt: v.At.Add(time.Minute), Reason: "Drifted", Remove: []view.StepNode{{Name: n.Name}}, Launch: []view.StepNode{{Pool: n.Pool, InstanceType: "four", HasPrice: true, PriceHourly: 0.1}}, SavingHourly: 0.1})
		v.Pools = []view.Change{{Name: n.Pool, NowHourly: 2, LeftHourly: 2, ThenHourly: 1}}
	}
	v.Stay = v.Drift
	return v
}

// past has the launches of all nodes of a session.
type past struct{ *session.Session }

func (p past) History(since time.Time, _, _ string) (view.History, error) {
	now := time.Now()
	h := view.History{Head: view.Head{Format: view.Format, Kind: "History", At: now}, Since: since, Prices: &view.PriceSpan{FirstAt: now.Add(-time.Hour), LastAt: now, Last: 1, Peak: 1}}
	fleet, err := (&live.Views{Latest: p.Latest, Now: time.Now}).Of("fleet", "")
	if err != nil {
		return h, err
	}
	for _, pool := range fleet.(view.Fleet).Pools {
		for i := range pool.Nodes {
			n := &pool.Nodes[i]
			at := now.Add(-time.Hour + time.Duration(i)*time.Second)
			h.Actions = append(h.Actions, view.Action{At: at, Decision: "1.aaaaaa", Kind: view.ActionLaunch, Reason: n.Name, Launch: []view.PlannedNode{{Pool: pool.Name, Claim: n.Claim, InstanceType: n.InstanceType, PriceHourly: n.PriceHourly}}})
			h.Prices.Points = append(h.Prices.Points, view.Point{At: at, PriceHourly: float64(i%7) / 10})
		}
	}
	return h, nil
}

func (p past) Decision(id string) (view.Decision, error) {
	h, err := p.History(time.Time{}, "", "")
	return view.Decision{Head: view.Head{Format: view.Format, Kind: "Decision", At: h.At}, ID: id, Loop: "provisioning", HasSnapshot: true, Actions: h.Actions}, err
}

// Explain knows a pod and a NodeClaim.
func (p past) Explain(asked string, types bool) ([]view.Explained, error) {
	switch asked {
	case "web-gone":
		return []view.Explained{{Kind: "pod", Name: "default/web-gone", Now: "does not exist any more", Says: []view.Said{{First: time.Now(), Last: time.Now(), Times: 1, Decision: "1.aaaaaa", What: "evicted: its node was drifted"}}}}, nil
	case "none":
		return nil, fmt.Errorf("there is no none: %w", live.ErrUnknown)
	}
	kind, name, _ := strings.Cut(asked, "/")
	var ranking *view.Ranking
	if types {
		ranking = &view.Ranking{Caption: "Instance types", Titles: []string{"rank", "type", "why not"}, Rows: [][]string{{"-", "m7g.large", "too small: it has 2 of 8 cpu"}, {"1", "r7i.2xlarge", ""}}}
	}
	return []view.Explained{{Kind: kind, Name: name, IsLaunch: kind == "nodeclaim", Ranking: ranking, Node: "ip-10-0-0-1", Pool: "legacy", Says: []view.Said{{First: time.Now().Add(-time.Minute), Last: time.Now(), Times: 3, What: "launch failed (no capacity)", Details: []string{"no four in zone a", "the NodeClaim is deleted, and its pods are planned again"}}}}}, nil
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
