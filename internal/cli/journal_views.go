package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/decision/history"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/operator"
	"github.com/dovetail-sh/dovetail/internal/tui"
	"github.com/dovetail-sh/dovetail/internal/view"
	"github.com/dovetail-sh/dovetail/internal/view/live"
	"github.com/dovetail-sh/dovetail/internal/view/web"
)

// journalViews makes the views of a controller from what its decisions in a journal saw. What was learned of shortages, and when
// budgets open, is in no journal.
type journalViews struct {
	name string
	// at are the decisions about the whole cluster that have their snapshots, by their index in file, the oldest first.
	at []int

	mu   sync.Mutex // protects file
	file *journal.File
}

// openViews reads a journal. It is an error if no decision of it has a snapshot of the cluster.
func openViews(ctx context.Context, path string, stderr io.Writer) (*journalViews, error) {
	from := &journalFlags{path: path}
	file, err := from.read(ctx, stderr)
	if err != nil {
		return nil, err
	}
	v := &journalViews{name: path, file: file}
	for i := range file.Decisions {
		e := &file.Decisions[i]
		if e.Loop != record.Static && !e.NoSnapshot {
			v.at = append(v.at, i)
		}
	}
	if len(v.at) == 0 {
		return nil, fmt.Errorf("no decision in %s has its snapshot: dovetail history and decision show what is left", path)
	}
	return v, nil
}

// viewsAt returns the views after one of the decisions: what it and the last one of the other loop before it saw and decided.
func (v *journalViews) viewsAt(at int) (*live.Views, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.file.Decisions[v.at[at]].At
	newest := []*record.Decision{}
	seen := map[record.Loop]bool{}
	for ; at >= 0 && len(seen) < 2; at-- {
		e := &v.file.Decisions[v.at[at]]
		if seen[e.Loop] {
			continue
		}
		d, has, err := e.Whole()
		if err != nil {
			return nil, err
		}
		if !has {
			continue // pieces of it were dropped
		}
		seen[e.Loop] = true
		newest = append([]*record.Decision{d}, newest...)
	}
	if len(newest) == 0 {
		return nil, fmt.Errorf("no decision in %s until then has its snapshot", v.name)
	}
	latest := &live.Latest{}
	for _, d := range newest {
		var fault error
		if why := d.Bug + d.Error; why != "" {
			fault = errors.New(why)
		}
		if d.Loop == record.Provisioning {
			latest.Provisioned(d.Snapshot, d.Plan.Refusals, fault)
			continue
		}
		again, next, err := proposed(d)
		if err == nil { // the journal leaves out why nodes stay
			latest.Disrupted(d.Snapshot, &again, &next, fault)
		} else {
			latest.Disrupted(d.Snapshot, &d.Disruption, &d.Memory, err)
		}
	}
	return &live.Views{Latest: latest, Now: func() time.Time { return now }}, nil
}

// proposed decides about disruption once more. A death of the core is an error.
func proposed(d *record.Decision) (again plan.Disruption, next disrupt.Memory, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("bug: %v", r)
		}
	}()
	again, next = disrupt.Propose(d.Snapshot, d.Memory, d.Disrupt)
	return again, next, nil
}

// session returns the journal as a recording, of which each moment is made when it is looked at. Its nodes have those of
// their labels that are named.
func (v *journalViews) session(labels ...string) (*tui.Session, error) {
	list, err := v.file.List()
	if err != nil {
		return nil, err
	}
	instants := make([]time.Time, len(v.at))
	for i, at := range v.at {
		instants[i] = v.file.Decisions[at].At
	}
	return tui.NewSession(v.name, instants, func(at int) tui.Moment {
		var m tui.Moment
		until := journal.Listing{Decisions: list.Decisions[:v.at[at]+1], Refusals: list.Refusals}
		m.Set(&until)
		views, err := v.viewsAt(at)
		for _, part := range tui.Parts() {
			var answer any
			by := view.ByWorkload
			if part == tui.PartFleet {
				by = view.ByLabels(labels)
			}
			if err == nil {
				answer, err = views.Of(part, by)
			}
			if err != nil {
				m.Overview = &view.Overview{Health: view.Health{Findings: []view.Finding{{Text: err.Error()}}}}
				break
			}
			p := reflect.New(reflect.TypeOf(answer))
			p.Elem().Set(reflect.ValueOf(answer))
			m.Set(p.Interface())
		}
		return m
	}, func(s journal.Subject) ([]journal.Answer, error) {
		v.mu.Lock()
		defer v.mu.Unlock()
		answers, err := v.file.Explain(s)
		if err == nil && len(answers) == 0 {
			err = fmt.Errorf("no decision is about %s", s)
		}
		return answers, err
	}), nil
}

// moments returns the pages of all decisions that have their snapshots.
func (v *journalViews) moments() web.Moments {
	m := web.Moments{Of: func(n int) (*live.Views, web.Past, error) {
		views, err := v.viewsAt(n)
		if err != nil {
			return nil, nil, err
		}
		past := &history.Kept{File: v.file, Lock: &v.mu}
		if n < len(v.at)-1 {
			past.Until = views.Now()
		}
		return views, past, nil
	}}
	for _, at := range v.at {
		m.List = append(m.List, web.Moment{ID: v.file.Decisions[at].ID.String(), At: v.file.Decisions[at].At})
	}
	return m
}

// serve answers with the pages of a controller on a port of this computer, until the context ends.
func (v *journalViews) serve(ctx context.Context, stdout, stderr io.Writer) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: operator.LoopbackOnly(web.HandlerOf(v.moments())), ReadHeaderTimeout: topPatience}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	last := &v.file.Decisions[v.at[len(v.at)-1]]
	fmt.Fprintf(stdout, "http://%s/\n", listener.Addr())
	fmt.Fprintf(stderr, "dovetail: the cluster as decision %s saw it at %s, and at %d moments before; open it in a browser; Ctrl-C ends it\n", last.ID, last.At.Local().Format(time.DateTime), len(v.at)-1)
	if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
