package web_test

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
	"github.com/dovetail-sh/dovetail/internal/view"
	"github.com/dovetail-sh/dovetail/internal/view/live"
	"github.com/dovetail-sh/dovetail/internal/view/web"
)

var rewrite = flag.Bool("rewrite", false, "write testdata anew")

const small = `
type four cpu=4 memory=8Gi price=0.20 spot=0.08 zones=a,b short=a/spot
type eight cpu=8 memory=16Gi price=0.40 zones=a,b
pool general limit.cpu=16 after=30s
pool batch after=Never budget=0 unready=its_class_is_not_ready
pdb db allowed=0
node a pool=general type=four capacity=spot zone=b last-pod-event=10s
running web on=a cpu=1 memory=1Gi count=2 app=web
node b pool=general type=eight
running db on=b cpu=7 memory=1Gi app=db pdb=db
node c pool=batch type=four drifted=NodePoolDrifted expires=5h
node d pool=general type=four deleting
node other cpu=2 memory=4Gi
pod big cpu=8 count=2 app=big planned=b
pod huge cpu=64 app=huge`

type nothing struct{}

func (nothing) Shortages() []catalog.Shortage { return nil }

func (nothing) BudgetChanges() map[string][]time.Time { return nil }

// BudgetSchedule lets a node of batch go in two hours, for three hours; general has the same budget all day.
func (nothing) BudgetSchedule(pool string) view.BudgetSchedule {
	return func(at time.Time) ([]cluster.Budget, time.Time) {
		opens, closes := story.Now().Add(2*time.Hour), story.Now().Add(5*time.Hour)
		switch {
		case pool != "batch":
			return []cluster.Budget{{Nodes: 10, Percent: true, Active: true}}, time.Time{}
		case at.Before(opens):
			return []cluster.Budget{{Active: true}}, opens
		case at.Before(closes):
			return []cluster.Budget{{Nodes: 1, Active: true, Reasons: []string{"Drifted"}}}, closes
		default:
			return []cluster.Budget{{Active: true}}, time.Time{}
		}
	}
}

// done is a past of three decisions.
type done struct{}

func (done) at(minute int) time.Time { return story.Now().Add(time.Duration(minute-60) * time.Minute) }

func (d done) actions() []view.Action {
	old := view.ActionNode{Name: "old<img>", Claim: "c1", InstanceType: "eight", CapacityType: "spot", Zone: "a", PriceHourly: 0.3, HasPrice: true}
	return []view.Action{
		{At: d.at(50), Decision: "3.aaaaaa", Kind: view.ActionDelete, Reason: "Empty", Pools: []string{"batch"}, Remove: []view.ActionNode{{Claim: "c9"}}},
		{
			At: d.at(20), Decision: "2.aaaaaa", Kind: view.ActionBegin, Reason: "Drifted", Pools: []string{"general"}, Remove: []view.ActionNode{old}, Pods: 3, Evictions: 2, SavingHourly: 0.1,
			Launch:  []view.PlannedNode{{Pool: "general", Claim: "c2", InstanceType: "four", Types: 2, PriceHourly: 0.2, Pods: 3}},
			Outcome: &view.Outcome{Done: true, At: d.at(30), Decision: "3.aaaaaa", Deleted: 1, Why: "Expired"},
		},
		{At: d.at(0), Decision: "1.aaaaaa", Kind: view.ActionLaunch, Reason: "provisioning", Pods: 1, PodNames: []string{"ns/p<img>"}, Launch: []view.PlannedNode{{Pool: "general", InstanceType: "four", PriceHourly: 0.2, Pods: 1, Landed: &view.LaunchOutcome{There: 1, Pods: 2}}}, Why: "no capacity<img>", Ends: "when there is"},
	}
}

func (d done) History(since time.Time, reason, pool string) (view.History, error) {
	h := view.History{Head: view.Head{Format: view.Format, Kind: "History", At: d.at(50)}, Since: since, Oldest: d.at(0), Prices: &view.PriceSpan{
		First: 0.2, FirstAt: d.at(0), Last: 0.3, LastAt: d.at(50), Least: 0.2, LeastAt: d.at(0), Peak: 0.5, PeakAt: d.at(20),
		Points: []view.Point{{At: d.at(0), PriceHourly: 0.2}, {At: d.at(20), PriceHourly: 0.5}, {At: d.at(50), PriceHourly: 0.3}},
	}}
	for _, a := range d.actions() {
		if !a.At.Before(since) && (reason != "drift" || a.Reason == "Drifted") && (pool == "" || slices.Contains(a.Pools, pool)) {
			h.Actions = append(h.Actions, a)
		}
	}
	h.Reasons = []view.ReasonSum{{Reason: "Drifted", Pool: "general", First: d.at(20), Last: d.at(20), Begun: 1, Nodes: 1, Deleted: 1, Launches: 1, Evictions: 2, SavingHourly: 0.1}}
	return h, nil
}

func (d done) Decision(id string) (view.Decision, error) {
	for _, a := range d.actions() {
		if a.Decision == id {
			return view.Decision{
				Head: view.Head{Format: view.Format, Kind: "Decision", At: a.At}, ID: id, Loop: "disruption", Took: 3456 * time.Microsecond, PendingPods: 1, Nodes: 4,
				PriceBefore: 0.5, PriceAfter: 0.4, FleetBound: 0.35, Stays: 2, HasSnapshot: id != "3.aaaaaa", Actions: []view.Action{a}, Result: &view.Result{Done: 1, Known: d.at(50), PriceHourly: 0.4, At: d.at(40)},
			}, nil
		}
	}
	return view.Decision{}, fmt.Errorf("decision %s: %w", id, live.ErrUnknown)
}

// Explain knows whatever is asked for by its kind.
func (d done) Explain(asked string, types bool) ([]view.Explained, error) {
	kind, name, hasKind := strings.Cut(asked, "/")
	if !hasKind {
		return nil, fmt.Errorf("there is no %s: %w", asked, live.ErrUnknown)
	}
	e := view.Explained{Kind: kind, Name: name, Now: "waits<img>", Ends: "when there is room", Node: "b", Claim: "c2", Pool: "general", Facts: []string{"eight in a, on-demand"}}
	times := 2
	if name == "often" {
		times = 60
	}
	for i := range times {
		e.Says = append(e.Says, view.Said{First: d.at(0), Last: d.at(59 - i), Times: int64(60 - i), What: "launch failed (no capacity)", Details: []string{"no eight in zone a<img>", "its pods are planned again"}, Ends: "soon"})
	}
	e.Says[1].Decision = "2.aaaaaa"
	if e.IsLaunch = kind == "nodeclaim"; e.IsLaunch && types {
		e.Ranking = &view.Ranking{Caption: "Instance types<img>", Titles: []string{"rank", "type"}, Rows: [][]string{{"-", "two<img>"}, {"1", "eight"}}, PassedMore: 3}
	}
	return []view.Explained{e, {Kind: kind, Name: name + " of before"}}, nil
}

// site returns the pages of a cluster after a decision of each loop.
func site(t *testing.T, text string, change func(*cluster.Snapshot)) http.Handler {
	t.Helper()
	return web.Handler(views(t, text, change), done{})
}

func views(t *testing.T, text string, change func(*cluster.Snapshot)) *live.Views {
	t.Helper()
	snap, err := story.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	change(snap)
	l := &live.Latest{}
	l.Begin(nothing{})
	p := pack.Decide(snap, pack.Options{})
	d, next := disrupt.Propose(snap, disrupt.Memory{}, disrupt.Options{})
	l.Provisioned(snap, p.Refusals, nil)
	l.Disrupted(snap, &d, &next, nil)
	return &live.Views{Latest: l, Now: story.Now}
}

func get(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	return w
}

func paths() []string {
	return []string{"/", "/fleet", "/fleet?pool=general&state=stays", "/fleet?pool=", "/pending", "/decisions", "/decisions?since=1h&reason=drift&pool=general", "/decisions?since=all", "/decision/3.aaaaaa", "/decision/2.aaaaaa", "/pools", "/pool/general", "/pool/batch", "/blockers", "/next", "/offerings", "/cost", "/cost?by=workload", "/cost?by=label:app", "/node/b", "/explain", "/explain?q=nodeclaim%2Fc2", "/explain?q=nodeclaim%2Fc2&types=true", "/whatif", "/whatif?spot=80%25&policy=WhenEmpty&without=m5.*&pool=general.limits.cpu%3D2%0D%0Abatch.weight%3D%271%27&f=x"}
}

// TestPages compares the text of every page with testdata, elements left out but for tables' cells.
func TestPages(t *testing.T) {
	t.Parallel()
	h := site(t, small, func(*cluster.Snapshot) {})
	var all strings.Builder
	for _, path := range paths() {
		w := get(h, path)
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		all.WriteString("==== " + path + "\n" + textOf(t, w.Body.String()))
	}
	file := filepath.Join("testdata", "pages.txt")
	if *rewrite {
		if err := os.WriteFile(file, []byte(all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if all.String() != string(want) {
		t.Errorf("the pages are not those of %s; with -rewrite it is written anew:\n%s", file, all.String())
	}
}

// textOf returns what a reader without styles sees of a page's main part: a line a block, cells divided by |.
func textOf(t *testing.T, page string) string {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	var walk func(n *html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
		if n.Type == html.ElementNode {
			switch n.Data {
			case "td", "th":
				b.WriteString(" | ")
			case "tr", "p", "li", "h1", "h2", "dd", "caption", "form":
				b.WriteString("\x00")
			case "dt":
				b.WriteString(": ")
			}
		}
	}
	var main func(n *html.Node)
	main = func(n *html.Node) {
		if n.Type == html.ElementNode && n.Data == "main" {
			walk(n)
			return
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			main(c)
		}
	}
	main(doc)
	var lines []string
	for _, line := range strings.Split(b.String(), "\x00") {
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			lines = append(lines, strings.TrimSuffix(line, " |"))
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// TestNamesAreText puts markup into every name and looks for what a browser would make of it.
func TestNamesAreText(t *testing.T) {
	t.Parallel()
	const evil = `<img src=x onerror=alert(1)>"'</td><script>alert(2)</script>`
	h := site(t, small, func(s *cluster.Snapshot) {
		for i := range s.Nodes {
			n := &s.Nodes[i]
			if n.Pool != "" {
				n.Pool += evil
			}
			n.Name += evil
			n.Claim += evil
			for k := range n.Labels {
				n.Labels[k] += evil
			}
			for k := range n.Reschedulable {
				n.Reschedulable[k].Name += evil
				n.Reschedulable[k].Namespace += evil
			}
			n.Drifted += evil
			for k := range n.Pods {
				c := *n.Pods[k].Constraints
				c.Namespace += evil
				c.Labels = map[string]string{"app": evil}
				n.Pods[k].Constraints = &c
			}
		}
		for i := range s.Pools {
			s.Pools[i].Name += evil
			s.Pools[i].Unready += evil
		}
		for i := range s.Pending {
			s.Pending[i].Name += evil
			s.Pending[i].Namespace += evil
		}
		for i := range s.PDBs {
			s.PDBs[i].Name += evil
		}
	})
	seen := 0
	for _, path := range append(paths(), "/node/"+"b%3Cimg%20src=x%20onerror=alert(1)%3E%22%27%3C%2Ftd%3E%3Cscript%3Ealert(2)%3C%2Fscript%3E", "/cost?by=label:%3Cimg%20onerror=1%3E", "/node/%3Cscript%3E", "/whatif?spot=%3Cimg%20onerror=1%3E&pool=%3C/textarea%3E%3Cscript%3E", "/pool/general%3Cimg%20src=x%20onerror=alert(1)%3E%22%27%3C%2Ftd%3E%3Cscript%3Ealert(2)%3C%2Fscript%3E") {
		body := get(h, path).Body.String()
		seen += strings.Count(body, "&lt;img")
		doc, err := html.Parse(strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for n := range doc.Descendants() {
			if n.Type != html.ElementNode {
				continue
			}
			if n.Data == "img" || n.Data == "script" && (n.FirstChild != nil || n.Attr[0].Key != "src" || !strings.HasPrefix(n.Attr[0].Val, "/dovetail.js?v=sha256-")) {
				t.Errorf("%s has an element %s", path, n.Data)
			}
			for _, a := range n.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" || strings.HasPrefix(strings.TrimSpace(a.Val), "javascript:") {
					t.Errorf("%s has an attribute %s=%s", path, a.Key, a.Val)
				}
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d names were shown", seen)
	}
}

// TestNothingComesFromElsewhere holds the policy of every page, and that all it names is here.
func TestNothingComesFromElsewhere(t *testing.T) {
	t.Parallel()
	h := site(t, small, func(*cluster.Snapshot) {})
	address := regexp.MustCompile(`(?:href|src|action)="([^"#]*)`)
	script := sha256.Sum256(get(h, "/dovetail.js").Body.Bytes())
	hash := "sha256-" + base64.StdEncoding.EncodeToString(script[:])
	for _, path := range append(paths(), "/style.css", "/dovetail.js", "/node/none") {
		w := get(h, path)
		policy := w.Header().Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; script-src 'sha256-") || strings.Contains(policy, "script-src 'self'") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
			t.Errorf("%s: policy %q", path, policy)
		}
		if !strings.Contains(policy, "script-src '"+hash+"';") {
			t.Errorf("%s: policy %q does not have the hash of the script, %s", path, policy, hash)
		}
		if w.Header().Get("Set-Cookie") != "" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: headers %v", path, w.Header())
		}
		if path == "/dovetail.js" {
			continue
		}
		for _, m := range address.FindAllStringSubmatch(w.Body.String(), -1) {
			to := strings.ReplaceAll(m[1], "&amp;", "&")
			if to == "" || strings.HasPrefix(to, "?") {
				continue
			}
			if strings.HasPrefix(to, "/debug/journal/") || strings.HasPrefix(to, "/debug/view/") {
				continue // the same port answers
			}
			if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") {
				t.Errorf("%s leads to %s", path, to)
			} else if code := get(h, to).Code; code != http.StatusOK {
				t.Errorf("%s leads to %s, which answers %d", path, to, code)
			}
		}
	}
	if strings.Contains(get(h, "/style.css").Body.String(), "url(") {
		t.Error("the style sheet loads something")
	}
}

// TestExplainIsBounded: a page has no more than the newest statements, and says that there are others.
func TestExplainIsBounded(t *testing.T) {
	t.Parallel()
	h := site(t, small, func(*cluster.Snapshot) {})
	body := get(h, "/explain?q=pod%2Foften").Body.String()
	if n := strings.Count(body, "launch failed"); n != 50 || !strings.Contains(body, "And 10 things before.") {
		t.Errorf("the page has %d statements, want 50 and that there are 10 others", n)
	}
	if w := get(h, "/explain?q=nobody"); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "there is no nobody") {
		t.Errorf("of what there is not it says %d %s", w.Code, w.Body)
	}
}

// TestADecisionIsBounded: the page of a decision has the first of its actions, and says that there are others.
func TestADecisionIsBounded(t *testing.T) {
	t.Parallel()
	h := web.Handler(views(t, small, func(*cluster.Snapshot) {}), manyActions{})
	body := get(h, "/decision/1.aaaaaa").Body.String()
	if n := strings.Count(body, `class="u"`); n != 100 || !strings.Contains(body, "And 400 others: <code>dovetail decision 1.aaaaaa</code>") {
		t.Errorf("the page has %d actions, want 100 and that there are 400 others", n)
	}
}

// manyActions is a past with a decision of 500 launches.
type manyActions struct{ done }

func (d manyActions) Decision(id string) (view.Decision, error) {
	v, err := d.done.Decision(id)
	v.Actions = slices.Repeat(v.Actions, 500)
	return v, err
}

func TestEveryPageIsATableThatReadersCanFollow(t *testing.T) {
	t.Parallel()
	h := site(t, small, func(*cluster.Snapshot) {})
	for _, path := range paths() {
		body := get(h, path).Body.String()
		for _, part := range []string{`<html lang="en">`, `<main id="main">`, `class="skip"`, `aria-current="page"`, "<h1>", "color-scheme"} {
			if strings.Count(body, part) != 1 {
				t.Errorf("%s has %q %d times", path, part, strings.Count(body, part))
			}
		}
		if strings.Count(body, "<table>") != strings.Count(body, "<caption>") || strings.Count(body, "<th ") != strings.Count(body, "<th scope=") {
			t.Errorf("%s has a table without a caption, or a header without a scope", path)
		}
	}
}

func TestALargeFleetComesInParts(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("type four cpu=4 memory=8Gi price=0.20\npool general\n")
	for i := range 450 {
		text.WriteString("node n" + string(rune('a'+i/26/26%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i%26)) + " pool=general type=four\n")
	}
	h := site(t, text.String(), func(*cluster.Snapshot) {})
	seen, path := map[string]bool{}, "/fleet?pool=general"
	after := regexp.MustCompile(`href="([^"]*)" rel="next"`)
	for range 5 {
		body := get(h, path).Body.String()
		for _, m := range regexp.MustCompile(`href="/node/([^"]*)"`).FindAllStringSubmatch(body, -1) {
			seen[m[1]] = true
		}
		m := after.FindStringSubmatch(body)
		if m == nil {
			break
		}
		path = strings.ReplaceAll(m[1], "&amp;", "&")
	}
	if len(seen) != 450 {
		t.Errorf("%d of 450 nodes are shown", len(seen))
	}
	r := httptest.NewRequest(http.MethodGet, "/fleet", http.NoBody)
	r.Header.Set("Accept-Encoding", "gzip")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if size := w.Body.Len(); size > 25<<10 {
		t.Errorf("the fleet page has %d bytes", size)
	}
	z, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	if page, err := io.ReadAll(z); err != nil || !strings.Contains(string(page), "</html>") {
		t.Errorf("the page is cut: %v", err)
	}
}

func TestBeforeTheFirstDecision(t *testing.T) {
	t.Parallel()
	w := get(web.Handler(&live.Views{Latest: &live.Latest{}, Now: story.Now}, done{}), "/")
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), live.ErrNotYet.Error()) || !strings.Contains(w.Body.String(), "http-equiv") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestADecisionThatIsNotKept(t *testing.T) {
	t.Parallel()
	w := get(site(t, small, func(*cluster.Snapshot) {}), "/decision/99.aaaaaa")
	if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "99.aaaaaa") || !strings.Contains(w.Body.String(), "<h1>Not found</h1>") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
