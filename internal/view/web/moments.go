package web

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/view/live"
)

const (
	// momentsPath is where the pages of moments are: momentsPath/ID/ and below.
	momentsPath = "/at"
	// momentsMost bounds of how many moments the views are kept.
	momentsMost = 8
)

// Moments are instants of which there are pages, the oldest first. There is at least one.
type Moments struct {
	List []Moment
	// Of returns what the pages of one of List show.
	Of func(n int) (*live.Views, Past, error)
}

// Moment is the instant of a decision.
type Moment struct {
	ID string
	At time.Time
}

// moment is the moment that a page is of.
type moment struct {
	Moment
	all    []Moment
	n      int
	prefix string // of the addresses of its pages
	page   string // the address of the page without prefix
}

// Number, Count and Prefix say which of how many moments it is, and where its pages are.
func (m *moment) Number() int    { return m.n + 1 }
func (m *moment) Count() int     { return len(m.all) }
func (m *moment) Prefix() string { return m.prefix }

// Page returns the address of the page without the moment; Here, First, Before, After and Last return those of the same
// page at a moment; empty: there is no such moment.
func (m *moment) Page() string   { return m.page }
func (m *moment) Here() string   { return m.at(m.n) }
func (m *moment) First() string  { return m.at(0) }
func (m *moment) Before() string { return m.at(m.n - 1) }
func (m *moment) After() string  { return m.at(m.n + 1) }
func (m *moment) Last() string   { return m.at(len(m.all) - 1) }

func (m *moment) at(n int) string {
	if n < 0 || n >= len(m.all) {
		return ""
	}
	return prefixOf(m.all[n].ID) + m.page
}

// Has reports whether there are pages of the moment of a decision.
func (m *moment) Has(id string) bool {
	return slices.ContainsFunc(m.all, func(m Moment) bool { return m.ID == id })
}

func prefixOf(id string) string { return momentsPath + "/" + url.PathEscape(id) }

// onPage returns the moment with the address of a page; nil: the pages are of now.
func (m *moment) onPage(at *url.URL) *moment {
	if m == nil {
		return nil
	}
	here := *m
	if here.page = at.EscapedPath(); at.RawQuery != "" {
		here.page += "?" + at.RawQuery
	}
	return &here
}

// lead makes the links of a page lead to pages of the same moment. Names in pages have no quotes, so that what is
// replaced is of a template.
func (m *moment) lead(page []byte) []byte {
	if m == nil || m.prefix == "" {
		return page
	}
	for _, link := range []string{`href="`, `action="`} {
		page = bytes.ReplaceAll(page, []byte(link+"/"), []byte(link+m.prefix+"/"))
		page = bytes.ReplaceAll(page, []byte(link+m.prefix+momentsPath+"/"), []byte(link+momentsPath+"/"))
	}
	return page
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
	all := &moments{Moments: m, empty: newSite(&live.Views{Latest: &live.Latest{}, Now: time.Now}, nil), kept: map[int]http.Handler{}}
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
