package web

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/view/live"
)

// momentsMost bounds of how many moments the views are kept.
const momentsMost = 8

// Moments are instants of which there are pages, the oldest first. There is at least one.
type Moments struct {
	List []Moment
	// Of returns what the pages of one of List show.
	Of func(n int) (*live.Views, Past, error)
}

// moments answers with the pages of Moments.
type moments struct {
	Moments
	empty *site // without views; it has the templates

	mu   sync.Mutex // protects kept, and is held while views are made
	kept map[int]http.Handler
}

// HandlerOf answers with the pages and views of moments: at / those of the newest.
func HandlerOf(m Moments) http.Handler {
	all := &moments{Moments: m, empty: newSite(&live.Views{Latest: &live.Latest{}, Now: func() time.Time { return m.List[len(m.List)-1].At }}, nil), kept: map[int]http.Handler{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+momentsPath+"/{$}", all.choose)
	mux.HandleFunc(momentsPath+"/{id}/", func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		n := slices.IndexFunc(m.List, func(m Moment) bool { return m.ID == id })
		if n < 0 {
			all.fail(w, r, fmt.Errorf("the cluster at decision %q: %w", id, live.ErrUnknown))
			return
		}
		all.serve(w, r, n, prefixOf(id))
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { all.serve(w, r, len(m.List)-1, "") })
	return mux
}

// choose leads to a page at the moment of a number.
func (a *moments) choose(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.Atoi(r.URL.Query().Get("n")) // what is no number is the first
	n = min(max(n, 1), len(a.List))
	page := "/" + strings.TrimLeft(r.URL.Query().Get("page"), "/")
	http.Redirect(w, r, prefixOf(a.List[n-1].ID)+page, http.StatusSeeOther)
}

func (a *moments) serve(w http.ResponseWriter, r *http.Request, n int, prefix string) {
	h, err := a.handler(n, prefix)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	http.StripPrefix(prefix, h).ServeHTTP(w, r)
}

func (a *moments) fail(w http.ResponseWriter, r *http.Request, err error) {
	a.empty.respond(w, r, answer{err: err}, &page{})
}

// handler returns what answers with the pages of a moment. The newest has those at / besides.
func (a *moments) handler(n int, prefix string) (http.Handler, error) {
	key := n
	if prefix == "" {
		key = len(a.List)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if h := a.kept[key]; h != nil {
		return h, nil
	}
	views, past, err := a.Of(n)
	if err != nil {
		return nil, err
	}
	s := *a.empty
	s.views, s.past, s.moment = views, past, &moment{Moment: a.List[n], all: a.List, n: n, prefix: prefix}
	mux := http.NewServeMux()
	mux.Handle(live.Path+"/", views.Handler())
	mux.Handle("/", s.mux())
	if len(a.kept) >= momentsMost {
		clear(a.kept)
	}
	a.kept[key] = mux
	return mux, nil
}
