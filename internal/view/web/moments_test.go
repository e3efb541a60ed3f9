package web_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/view/live"
	"github.com/dovetail-sh/dovetail/internal/view/web"
)

// moments returns the pages of three moments. At the second, there is a node more than at the first.
func moments(t *testing.T) http.Handler {
	t.Helper()
	clusters := []string{strings.Replace(small, "node d ", "node early ", 1), small + "\nnode second pool=general type=four", small}
	m := web.Moments{Of: func(n int) (*live.Views, web.Past, error) {
		return views(t, clusters[n], func(*cluster.Snapshot) {}), done{}, nil
	}}
	for n, id := range []string{"1.aaaaaa", "2.aaaaaa", "3.aaaaaa"} {
		m.List = append(m.List, web.Moment{ID: id, At: done{}.at(20 * n)})
	}
	return web.HandlerOf(m)
}

func TestMoments(t *testing.T) {
	t.Parallel()
	h := moments(t)
	for path, want := range map[string][]string{
		"/fleet":                              {"moment 3 of 3", `href="/at/2.aaaaaa/fleet">before`, `href="/node/d"`, `data-base=""`, `value="/fleet"`},
		"/at/1.aaaaaa/fleet?state=stays":      {"moment 1 of 3", `href="/at/2.aaaaaa/fleet?state=stays">after`, `href="/at/3.aaaaaa/fleet?state=stays">last`, `data-base="/at/1.aaaaaa"`, `action="/at/"`},
		"/at/1.aaaaaa/node/early":             {"<h1>Node early</h1>", `href="/at/1.aaaaaa/fleet"`},
		"/at/2.aaaaaa/fleet":                  {`href="/at/2.aaaaaa/node/second"`},
		"/at/2.aaaaaa/decision/1.aaaaaa":      {`href="/at/1.aaaaaa/fleet">The nodes as it saw them`},
		"/at/1.aaaaaa/decisions":              {`action="/at/1.aaaaaa/decisions"`},
		"/at/2.aaaaaa/debug/view/node/second": {`"name":"second"`},
	} {
		w := get(h, path)
		for _, text := range want {
			if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), text) {
				t.Errorf("%s: %d without %q:\n%s", path, w.Code, text, w.Body)
			}
		}
	}
	for path, text := range map[string]string{"/at/1.aaaaaa/node/second": "Not found", "/at/9.aaaaaa/fleet": "9.aaaaaa"} {
		if w := get(h, path); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), text) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if body := get(site(t, small, func(*cluster.Snapshot) {}), "/fleet").Body.String(); strings.Contains(body, "data-base") || strings.Contains(body, `action="/at/"`) {
		t.Error("the pages of a controller speak of moments")
	}
}

// TestMomentsAreLeftByTheirFormAlone follows every link of the pages of a moment.
func TestMomentsAreLeftByTheirFormAlone(t *testing.T) {
	t.Parallel()
	h := moments(t)
	link := regexp.MustCompile(`(?:href|action)="(/[^"#]*)`)
	form := regexp.MustCompile(`(?s)<form class="sum".*?</form>`)
	for _, path := range paths() {
		body := get(h, "/at/2.aaaaaa"+path).Body.String()
		for _, m := range link.FindAllStringSubmatch(form.ReplaceAllString(body, ""), -1) {
			to := strings.ReplaceAll(m[1], "&amp;", "&")
			if !strings.HasPrefix(to, "/at/2.aaaaaa/") && !strings.Contains(path, "/decision/") {
				t.Errorf("%s leads to %s", path, to)
			}
			if code := get(h, to).Code; code != http.StatusOK {
				t.Errorf("%s leads to %s, which answers %d", path, to, code)
			}
		}
	}
}

func TestMomentsAreChosenByNumber(t *testing.T) {
	t.Parallel()
	h := moments(t)
	for asked, want := range map[string]string{
		"n=2&page=/fleet%3Fpool%3Dgeneral": "/at/2.aaaaaa/fleet?pool=general", "n=2&page=//evil.example/": "/at/2.aaaaaa/evil.example/",
		"n=0": "/at/1.aaaaaa/", "n=99&page=/": "/at/3.aaaaaa/", "n=x&page=https://evil.example": "/at/1.aaaaaa/https:/evil.example",
	} {
		if w := get(h, "/at/?"+asked); w.Code != http.StatusSeeOther || w.Header().Get("Location") != want {
			t.Errorf("%s: %d to %q, want %q", asked, w.Code, w.Header().Get("Location"), want)
		}
	}
}
