// Package web shows views as pages: complete tables in HTML, without a cookie or anything from elsewhere.
// Names are text nodes, whatever they contain. It changes nothing.
//
// Read Handler first, then pages/layout.html; each page is the file of its name. A script adds the map and
// what changes while a page is open: it is TypeScript in script, of which main.ts comes first, and
// tools/web bundles it into pages/dovetail.js.
package web

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/view"
	"github.com/dovetail-sh/dovetail/internal/view/live"
	"github.com/dovetail-sh/dovetail/internal/view/table"
)

//go:embed pages
var files embed.FS

const (
	// rowsMost is how many nodes a page of the fleet has.
	rowsMost = 200
	// refreshLeast is the shortest time in seconds after which a page may ask to be read again.
	refreshLeast, refreshMost = 2, 3600
	// policy lets a page use its own style sheet, send its form, run the script with that hash and let it
	// ask for views, and nothing else.
	policy = "default-src 'none'; script-src '%s'; connect-src 'self'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	// cacheFor is how long in seconds a browser keeps a file that has its hash in its address.
	cacheFor = 31536000
)

// link is an entry of the navigation.
type link struct{ Path, Title string }

// links returns the pages, in their order.
func links() []link {
	return []link{
		{"/", "Overview"},
		{"/fleet", "Fleet"},
		{"/pending", "Pending"},
		{"/decisions", "Decisions"},
		{"/pools", "Pools"},
		{"/blockers", "Blockers"},
		{"/next", "Next"},
		{"/offerings", "Offerings"},
		{"/cost", "Cost"},
		{whatIfPath, "What-if"},
		{explainPath, "Explain"},
	}
}

// page is what a template is given.
type page struct {
	Title string
	// Path is that of the entry of the navigation that the page belongs to.
	Path    string
	Links   []link
	At      time.Time
	Refresh int // in seconds; 0: the page stays as it is
	View    any
	Rows    *rows // of the fleet
	// Once: an open page is not read again by itself.
	Once bool
	// Overview is what the line at the head of each page says; nil: nothing is known yet.
	Overview *view.Overview
	// Script and Style are the hashes of these files.
	Script, Style string
	// Again and Still are the addresses of the page that is read again and that is not.
	Again, Still string
	// Asked is the subject that the page is about; empty: none that was asked for by name.
	Asked string
	// Moment is the past instant that the page is of; nil: it is of now.
	Moment *moment
}

// rows is the part of a fleet that one page shows.
type rows struct {
	Nodes       []view.Node
	Pools       []string
	States      []string
	Pool, State string
	// From is the number of the first node, Total how many nodes the filter leaves. Before and After are
	// the addresses of the pages before and after; empty: there is none.
	From, To, Total int
	Before, After   string
}

// site answers with pages.
type site struct {
	views     *live.Views
	past      Past
	templates map[string]*template.Template
	// script and style are the hashes of these files, as the attribute integrity has them.
	script, style string
	moment        *moment // that all pages are of; nil: they are of now
}

// Handler answers / and the pages below it. It must be reached under names of this computer only: who
// may ask is whoever reaches the port.
func Handler(views *live.Views, past Past) http.Handler {
	s := newSite(views, past)
	return s.mux()
}

// newSite returns a site with its templates.
func newSite(views *live.Views, past Past) *site {
	s := &site{views: views, past: past, templates: map[string]*template.Template{}, script: hashOf("dovetail.js"), style: hashOf("style.css")}
	for _, name := range []string{"overview", "fleet", "node", "pending", "decisions", "decision", "pools", "pool", "blockers", "next", "offerings", "cost", "whatif", "explain", "error"} {
		s.templates[name] = template.Must(template.New("layout.html").Funcs(words()).ParseFS(files, "pages/layout.html", "pages/parts.html", "pages/"+name+".html"))
	}
	return s
}

func (s *site) mux() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /style.css", s.file("style.css", "text/css; charset=utf-8"))
	mux.HandleFunc("GET /dovetail.js", s.file("dovetail.js", "text/javascript; charset=utf-8"))
	mux.HandleFunc("GET /{$}", s.show("/", "Overview", "overview"))
	mux.HandleFunc("GET /decisions", s.answerPast)
	mux.HandleFunc("GET /decision/{id}", s.answerDecision)
	mux.HandleFunc("GET "+explainPath, s.answerExplain)
	for _, l := range links()[1:] {
		if l.Path != "/decisions" && l.Path != whatIfPath && l.Path != explainPath {
			mux.HandleFunc("GET "+l.Path, s.show(l.Path, l.Title, strings.TrimPrefix(l.Path, "/")))
		}
	}
	mux.HandleFunc("GET /node/{name}", func(w http.ResponseWriter, r *http.Request) {
		s.write(w, r, "node", "node/"+r.PathValue("name"), &page{Title: "Node " + r.PathValue("name"), Path: "/fleet"})
	})
	mux.HandleFunc("GET "+whatIfPath, s.answerWhatIf(nil))
	mux.HandleFunc("GET /pool/{name}", func(w http.ResponseWriter, r *http.Request) {
		s.write(w, r, "pool", "pool/"+r.PathValue("name"), &page{Title: "NodePool " + r.PathValue("name"), Path: "/pools"})
	})
	return mux
}

// show returns what answers with one page.
func (s *site) show(path, title, name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.write(w, r, name, name, &page{Title: title, Path: path})
	}
}

// hashOf returns the hash of a file of pages.
func hashOf(name string) string {
	body, err := files.ReadFile("pages/" + name)
	if err != nil {
		panic(err) // it is in the binary
	}
	sum := sha256.Sum256(body)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// file returns what answers with a file of pages, to be kept by browsers if its address has its hash.
func (s *site) file(name, contentType string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := files.ReadFile("pages/" + name)
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		s.setHeaders(w)
		if r.URL.Query().Get("v") == hashOf(name) {
			w.Header().Set("Cache-Control", "max-age="+strconv.Itoa(cacheFor)+", immutable")
		}
		w.Header().Set("Content-Type", contentType)
		live.Write(w, r, http.StatusOK, body)
	}
}

func (s *site) setHeaders(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Security-Policy", fmt.Sprintf(policy, s.script))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// write answers with the page of a view, or with one that says why there is none.
func (s *site) write(w http.ResponseWriter, r *http.Request, name, viewName string, p *page) {
	v, err := s.views.Of(viewName, r.URL.Query().Get("by"))
	s.respond(w, r, answer{name, v, err}, p)
}

// answer is what a page of that name shows; with an error it is another page that says why there is none.
type answer struct {
	name string
	view any
	err  error
}

// respond answers with a page.
func (s *site) respond(w http.ResponseWriter, r *http.Request, a answer, p *page) {
	p.Links, p.Refresh, p.Moment = links(), refreshOf(r.URL.Query()), s.moment.onPage(r.URL)
	status := http.StatusOK
	name, v, err := a.name, a.view, a.err
	if err != nil {
		name, v, status = "error", err.Error(), live.Status(err)
		if p.Title = "Not found"; errors.Is(err, live.ErrNotYet) {
			p.Title, p.Refresh = "Nothing yet", refreshLeast
		}
	}
	p.View, p.At, p.Script, p.Style = v, instantOf(v), s.script, s.style
	p.Again, p.Still = refreshPaths(r.URL)
	if o, err := s.views.Of("overview", ""); err == nil {
		if o, ok := o.(view.Overview); ok {
			p.Overview = &o
		}
	}
	if f, ok := v.(view.Fleet); ok {
		p.Rows = rowsOf(&f, r.URL.Query())
	}
	var text bytes.Buffer
	if err := s.templates[name].Execute(&text, p); err != nil {
		http.Error(w, fmt.Sprintf("the page cannot be made: %v", err), http.StatusInternalServerError)
		return
	}
	s.setHeaders(w)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	live.Write(w, r, status, p.Moment.lead(text.Bytes()))
}

// answerPast answers with what was done lately.
func (s *site) answerPast(w http.ResponseWriter, r *http.Request) {
	v, since := asked(r.URL.Query(), s.views.Now())
	h, err := s.past.History(since, v.Reason, v.Pool)
	if err == nil {
		v.take(&h)
	}
	s.respond(w, r, answer{"decisions", v, err}, &page{Title: "Decisions", Path: "/decisions"})
}

// decision is what the page of a decision is given. Shown are its first actions; More is how many others there are.
type decision struct {
	view.Decision
	Shown []view.Action
	More  int
}

// answerDecision answers with one decision.
func (s *site) answerDecision(w http.ResponseWriter, r *http.Request) {
	v, err := s.past.Decision(r.PathValue("id"))
	shown := &decision{Decision: v, Shown: v.Actions[:min(len(v.Actions), actionsMost)]}
	shown.More = len(v.Actions) - len(shown.Shown)
	s.respond(w, r, answer{"decision", shown, err}, &page{Title: "Decision " + r.PathValue("id"), Path: "/decisions"})
}

// refreshOf returns after how many seconds the page is to be read again; 0: never.
func refreshOf(q url.Values) int {
	n, err := strconv.Atoi(q.Get("refresh"))
	if err != nil || n <= 0 {
		return 0
	}
	return min(max(n, refreshLeast), refreshMost)
}

// refreshPaths returns the addresses of a page that is read again, and that is not.
func refreshPaths(at *url.URL) (again, still string) {
	q := at.Query()
	q.Set("refresh", "5")
	again = "?" + q.Encode()
	q.Del("refresh")
	return again, "?" + q.Encode()
}

// instantOf returns the instant of a view.
func instantOf(v any) time.Time {
	switch v := v.(type) {
	case view.Overview:
		return v.At
	case view.Fleet:
		return v.At
	case view.NodeView:
		return v.At
	case view.Pending:
		return v.At
	case view.Pools:
		return v.At
	case view.PoolView:
		return v.At
	case view.Blockers:
		return v.At
	case view.Offerings:
		return v.At
	case view.Cost:
		return v.At
	case view.Next:
		return v.At
	case *decision:
		return v.At
	case *past:
		return v.At
	case *whatIf:
		if v.Answer != nil {
			return v.Answer.At
		}
	}
	return time.Time{}
}

// rowsOf returns the nodes that a query asks for.
func rowsOf(f *view.Fleet, q url.Values) *rows {
	r := &rows{Pool: q.Get("pool"), State: q.Get("state")}
	seen := map[string]bool{}
	var all []view.Node
	for _, p := range f.Pools {
		r.Pools = append(r.Pools, p.Name)
		for i := range p.Nodes {
			n := &p.Nodes[i]
			if !seen[n.Status.State] {
				seen[n.Status.State] = true
				r.States = append(r.States, n.Status.State)
			}
			if (!q.Has("pool") || n.Pool == r.Pool) && (r.State == "" || n.Status.State == r.State) {
				all = append(all, *n)
			}
		}
	}
	from, _ := strconv.Atoi(q.Get("from")) // what is no number is the first
	from = min(max(0, from), len(all))
	to := min(from+rowsMost, len(all))
	r.Nodes, r.From, r.To, r.Total = all[from:to], from+1, to, len(all)
	at := func(from int) string {
		other := url.Values{"from": {strconv.Itoa(from)}}
		for _, key := range []string{"pool", "state", "refresh"} {
			if q.Has(key) {
				other.Set(key, q.Get(key))
			}
		}
		return "/fleet?" + other.Encode()
	}
	if from > 0 {
		r.Before = at(max(0, from-rowsMost))
	}
	if to < len(all) {
		r.After = at(to)
	}
	return r
}

// words returns the functions of the templates.
func words() template.FuncMap {
	return template.FuncMap{
		"money": table.Money, "monthly": table.Monthly, "price": table.Price, "share": table.Share, "percent": table.Percent, "cores": table.Cores, "bytes": table.Bytes,
		"limits": table.LimitText, "budgets": table.BudgetText, "after": table.AfterText, "cause": table.CauseText,
		"amount": table.Amount, "upper": strings.ToUpper, "title": titleOf,
		"iso": func(at time.Time) string { return at.UTC().Format(time.RFC3339) }, "clock": clock,
		"age":         func(now, since time.Time) string { return max(0, now.Sub(since)).Round(time.Second).String() },
		"nodePath":    func(name string) string { return "/node/" + url.PathEscape(name) },
		"explainPath": explainPathOf,
		"poolPath":    func(name string) string { return "/pool/" + url.PathEscape(name) },
		"workload":    func(w view.Workload) string { return strings.TrimSpace(w.Kind + " " + w.String()) },
		"by":          func(by string) string { return strings.TrimPrefix(by, view.ByLabel) },
		"observes":    func() string { return view.ObservesText },
		"took":        func(d time.Duration) string { return d.Round(100 * time.Microsecond).String() },
		"mark":        func(a view.Action) string { return table.ActionMark(&a) },
		"change":      func(saving float64) string { return fmt.Sprintf("%+.4f", -saving) },
		"signs":       table.Mark,
		"reason":      reasonOf,
		"strip":       stripOf,
		"policies": func() []string {
			return []string{"WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"}
		},
		"within": func(from, at time.Time) string { return at.Sub(from).Round(time.Second).String() },
		"none":   func(pool string) string { return cmp.Or(pool, "(none)") },
	}
}

// titleOf returns a word with a capital.
func titleOf(word string) string {
	if word == "" {
		return ""
	}
	return strings.ToUpper(word[:1]) + word[1:]
}

// WhatIfHandler answers the page of a change alone, by what ask says.
func WhatIfHandler(now func() time.Time, ask WhatIf) http.Handler {
	return newSite(&live.Views{Latest: &live.Latest{}, Now: now}, nil).answerWhatIf(ask)
}

// answerWhatIf returns what answers the page; ask is nil: nobody can be asked here.
func (s *site) answerWhatIf(ask WhatIf) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := &whatIf{Question: questionOf(r.URL.Query()), CanAsk: ask != nil}
		if !v.IsNothing() {
			v.Command = v.command()
		}
		if ask != nil && !v.IsNothing() {
			answer, err := ask(r.Context(), &v.Question)
			if v.Answer = answer; err != nil {
				v.Fault = err.Error()
			}
		}
		s.respond(w, r, answer{"whatif", v, nil}, &page{Title: "What-if", Path: whatIfPath, Once: true})
	}
}
