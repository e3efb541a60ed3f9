package browser

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

var (
	// figures makes times part of the tests: on a computer with nothing else to do.
	figures = flag.Bool("figures", false, "fail where a page takes longer than the design allows")
	// axe is the file axe.min.js of axe-core.
	axe = flag.String("axe", os.Getenv("AXE_JS"), "the file axe.min.js of axe-core, whose rules are tried on every page")
)

// TestPagesHaveNoFaultsAndAreSmall opens every page with a cold cache: nothing on the console, no request to
// elsewhere, few bytes, and nothing wider than a narrow screen.
func TestPagesHaveNoFaultsAndAreSmall(t *testing.T) {
	s := serve(t, 300)
	tab, faults := open(t)
	for name, path := range paths() {
		before := s.sent.Load()
		run(t, tab, chromedp.EmulateViewport(1280, 800), chromedp.Navigate(s.URL+path))
		if name == "fleet" {
			until(t, tab, drawn)
		}
		if sent := s.sent.Load() - before; sent > 120<<10 {
			t.Errorf("%s: %d bytes", path, sent)
		}
		if text := ask[string](t, tab, "document.querySelector('h1').innerText"); text == "" {
			t.Errorf("%s has no heading", path)
		}
		for _, fault := range faults() {
			if name != "none" && name != "explain none" && name != "no moment" || !strings.Contains(fault, "404") {
				t.Errorf("%s: %s", path, fault)
			}
		}
		run(t, tab, chromedp.EmulateViewport(320, 640), chromedp.Navigate(s.URL+path))
		if wide := ask[int](t, tab, "document.documentElement.scrollWidth"); wide > 320 {
			t.Errorf("%s is %d pixels wide on a screen of 320", path, wide)
		}
		faults()
	}
	run(t, tab, chromedp.Navigate(s.URL+"/"))
	zone := ask[string](t, tab, "fetch('/').then(() => document.querySelector('time').title)")
	if !strings.HasSuffix(zone, "UTC") {
		t.Errorf("on hover a time says %q, not UTC", zone)
	}
}

// TestFleetAtSize opens the fleet of 5,000 nodes with 100,000 pods with a cold cache.
func TestFleetAtSize(t *testing.T) {
	s := serve(t, 5000)
	if _, err := s.Client().Get(s.URL + "/"); err != nil { // the process has made a page before
		t.Fatal(err)
	}
	tab, faults := open(t)
	emptied(t, tab, s.URL)
	before := s.sent.Load()
	run(t, tab, chromedp.Navigate(s.URL+"/fleet"))
	until(t, tab, drawn)
	sent := s.sent.Load() - before
	paint := ask[float64](t, tab, "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1")
	map1 := ask[float64](t, tab, "performance.getEntriesByName('map-drawn')[0].startTime")
	t.Logf("%d bytes, first paint after %.0f ms, map after %.0f ms", sent, paint, map1)
	if n := ask[string](t, tab, "document.getElementById('map').dataset.drawn"); n != "5001" {
		t.Errorf("%s of 5001 nodes are drawn", n)
	}
	if sent > 300<<10 {
		t.Errorf("the fleet page has %d bytes", sent)
	}
	if *figures && (paint > 500 || map1 > 1000) {
		t.Errorf("first paint after %.0f ms, map after %.0f ms", paint, map1)
	}
	for _, fault := range faults() {
		t.Error(fault)
	}
}

// emptied leaves the tab of a browser that has been in use, with a cold cache: it has found its fonts and started its
// processes for another page.
func emptied(t *testing.T, tab context.Context, at string) {
	t.Helper()
	run(t, tab, chromedp.Navigate(at+"/explain"), chromedp.Navigate("about:blank"))
	if err := call(tab, network.ClearBrowserCache, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	if *figures {
		idle(t)
	}
}

// idle waits until the computer has nothing else to do: what a browser does after its start, and the garbage of making
// so many nodes, would count as the page's.
func idle(t *testing.T) {
	t.Helper()
	runtime.GC()
	was, tick := idleTime(t), time.NewTicker(idleFor)
	defer tick.Stop()
	for range idleTries {
		<-tick.C
		now := idleTime(t)
		if now-was > idleFor*time.Duration(runtime.NumCPU())*9/10 {
			return
		}
		was = now
	}
	t.Fatal("the computer does not become idle, so that times say nothing: leave out -figures, or end what else runs")
}

// idleFor is how long a computer has nothing to do if it is idle, and idleTries how often that is looked for.
const (
	idleFor   = 500 * time.Millisecond
	idleTries = 60
)

// idleTime returns for how long the computer's processors have had nothing to do, in all.
func idleTime(t *testing.T) time.Duration {
	t.Helper()
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal("-figures needs Linux, to know whether the computer is idle: ", err)
	}
	fields := strings.Fields(string(stat))
	ticks, err := strconv.ParseInt(fields[4], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(ticks) * time.Second / 100
}

// TestPagesAtSize opens every page but the fleet's of 5,000 nodes with 100,000 pods with a cold cache, and says how
// large it is and how long it takes.
func TestPagesAtSize(t *testing.T) {
	s := serve(t, 5000)
	tab, _ := open(t)
	for name, path := range paths() {
		if name == "fleet" {
			continue
		}
		emptied(t, tab, s.URL)
		before := s.sent.Load()
		run(t, tab, chromedp.Navigate(s.URL+path))
		sent, took := s.sent.Load()-before, ask[float64](t, tab, "performance.getEntriesByType('navigation')[0].loadEventStart")
		t.Logf("%s: %d bytes, %.0f ms", path, sent, took)
		if sent > 120<<10 {
			t.Errorf("%s: %d bytes", path, sent)
		}
		if *figures && took > 300 {
			t.Errorf("%s: after %.0f ms", path, took)
		}
	}
}

// TestMapByKeys walks the map by the keyboard: arrows, Enter, t.
func TestMapByKeys(t *testing.T) {
	s := serve(t, 60)
	tab, _ := open(t)
	run(t, tab, chromedp.Navigate(s.URL+"/fleet"))
	until(t, tab, drawn)
	run(t, tab, chromedp.Evaluate[chromedp.Void]("document.querySelector('.stage').focus()"))
	says := func() string { return ask[string](t, tab, "document.getElementById('map-says').textContent") }
	first := says()
	if !strings.Contains(first, "cpu") {
		t.Fatalf("with the focus the map says %q", first)
	}
	seen := map[string]bool{first: true}
	for _, key := range []string{kb.ArrowRight, kb.ArrowDown, kb.ArrowRight, kb.ArrowDown, kb.ArrowLeft, kb.ArrowUp, kb.End, kb.Home} {
		run(t, tab, chromedp.KeyEvent(key))
		seen[says()] = true
	}
	if len(seen) < 5 {
		t.Errorf("eight arrows lead to %d nodes", len(seen))
	}
	run(t, tab, chromedp.KeyEvent("t"))
	if at := ask[string](t, tab, "document.activeElement.id"); at != "table" {
		t.Errorf("t leads to %q", at)
	}
	run(t, tab, chromedp.KeyEvent("t"))
	if at := ask[string](t, tab, "document.activeElement.className"); at != "stage" {
		t.Errorf("t leads back to %q", at)
	}
	name, _, _ := strings.Cut(says(), ":")
	follow(t, tab, chromedp.KeyEvent(kb.Enter))
	if title := ask[string](t, tab, "document.querySelector('h1').innerText"); title != "Node "+name {
		t.Errorf("Enter at %s opens %q", name, title)
	}
}

// TestAMomentStaysAsItIs goes from the fleet of a moment to a node of it, and to the same page of another moment.
func TestAMomentStaysAsItIs(t *testing.T) {
	s := serve(t, 60)
	tab, faults := open(t)
	run(t, tab, chromedp.Navigate(s.URL+"/at/1.aaaaaa/fleet"))
	until(t, tab, drawn)
	if text := ask[string](t, tab, "document.getElementById('tools').textContent"); text != "" {
		t.Errorf("a past moment is %q", text)
	}
	if asked := ask[string](t, tab, "performance.getEntriesByType('resource').map((e) => new URL(e.name).pathname).join()"); strings.Contains(asked, "stream") || !strings.Contains(asked, "/at/1.aaaaaa/debug/view/map") {
		t.Errorf("the page asks for %s", asked)
	}
	run(t, tab, chromedp.Evaluate[chromedp.Void]("document.querySelector('.stage').focus()"), chromedp.KeyEvent(kb.Home))
	follow(t, tab, chromedp.KeyEvent(kb.Enter))
	path := ask[string](t, tab, "location.pathname")
	if !strings.HasPrefix(path, "/at/1.aaaaaa/node/") {
		t.Errorf("Enter leads to %s", path)
	}
	run(t, tab, chromedp.Evaluate[chromedp.Void]("document.querySelector('input[type=range]').value = 2"))
	follow(t, tab, chromedp.Evaluate[chromedp.Void]("document.querySelector('form[aria-label=Moment] button').click()"))
	if now, want := ask[string](t, tab, "location.pathname"), strings.Replace(path, "/1.aaaaaa/", "/2.aaaaaa/", 1); now != want {
		t.Errorf("the form leads from %s to %s", path, now)
	}
	for _, fault := range faults() {
		t.Error(fault)
	}
}

// TestQuestions answers what people ask first within the clicks that the design allows: a link's text
// for each click from the first page, "ask NAME" for a name that is typed, "paste TEXT" for what is pasted into the page of a
// change, and what the last page must then say.
func TestQuestions(t *testing.T) {
	s := serve(t, 120)
	tab, _ := open(t)
	for _, q := range []struct {
		question string
		clicks   []string
		says     []string
	}{
		{"why is my pod pending, and what would help", []string{"Pending"}, []string{"ml-train", "report", "Ends"}},
		{"why has that node not gone", []string{"Fleet", "ip-10-0-0-1"}, []string{"drifted", "ends"}},
		{"is the autoscaler healthy", nil, []string{"needs a look", "legacy"}},
		{"what do we pay, and how far from the least possible", nil, []string{"$", "a month", "least possible"}},
		{"what will it do next, and when", []string{"Next"}, []string{"legacy", "replaced"}},
		{"what blocks consolidation, in dollars", []string{"Blockers"}, []string{"PodDisruptionBudget", "$"}},
		{"which pool is near its limit", []string{"Pools"}, []string{"limit", "legacy"}},
		{"which of its nodes drifted, and when may they go", []string{"Pools", "legacy"}, []string{"how many of its nodes may be disrupted", "drifted nodes"}},
		{"what would it cost with more spot", []string{"What-if"}, []string{"spot nodes", "nothing is changed"}},
		{"which offerings are short", []string{"Offerings"}, []string{"offerings are short"}},
		{"who uses the money", []string{"Cost"}, []string{"(idle)", "default"}},
		{"what happened in the last hour", []string{"Decisions"}, []string{"1.aaaaaa", "+ launch"}},
		{"what did last night's drift do", []string{"Decisions", "drift"}, []string{"of the last", "drift"}},
		{"why did the bill jump", []string{"Decisions", "1.aaaaaa"}, []string{"provisioning", "what it did"}},
		{"why this type, zone, spot", []string{"ask nodeclaim/c1", "r7i.2xlarge"}, []string{"type r7i.2xlarge"}},
		{"why this type and not a cheaper one", []string{"ask nodeclaim/c1", "Why this instance type"}, []string{"rank", "too small: it has 2 of 8 cpu"}},
		{"why was my pod evicted", []string{"ask web-gone"}, []string{"does not exist any more", "its node was drifted"}},
		{"why did a launch fail, how often, what is tried next", []string{"ask nodeclaim/c1"}, []string{"launch failed (no capacity)", "3", "its pods are planned again"}},
		{"what would my change of NodePool do before I apply it", []string{"What-if", "paste kind: NodePool"}, []string{"spec.limits.cpu: 4 → 2", "what would be done, in order"}},
		{"can I send the decision to someone", []string{"Decisions", "1.aaaaaa"}, []string{"download it as a file", "dovetail replay --id 1.aaaaaa"}},
		{"where are the holes", []string{"Fleet"}, []string{"free room"}},
	} {
		run(t, tab, chromedp.Navigate(s.URL+"/"))
		for _, text := range q.clicks {
			act := fmt.Sprintf("[...document.querySelectorAll('a')].find((a) => a.textContent === %q).click()", text)
			if name, isTyped := strings.CutPrefix(text, "ask "); isTyped {
				act = fmt.Sprintf("{const f = document.querySelector('form[role=search]'); f.q.value = %q; f.requestSubmit()}", name)
			} else if pasted, is := strings.CutPrefix(text, "paste "); is {
				act = fmt.Sprintf("{const f = document.querySelector('main form'); f.f.value = %q; f.requestSubmit()}", pasted)
			}
			follow(t, tab, chromedp.Evaluate[chromedp.Void](act))
		}
		text := strings.ToLower(ask[string](t, tab, "document.body.innerText"))
		for _, want := range q.says {
			if !strings.Contains(text, strings.ToLower(want)) {
				t.Errorf("%s: the page does not say %q:\n%s", q.question, want, text)
			}
		}
	}
}

// TestPagesFollow changes the cluster under an open page, cuts the connection, and changes it again.
func TestPagesFollow(t *testing.T) {
	s := serve(t, 60)
	tab, _ := open(t)
	run(t, tab, chromedp.Navigate(s.URL+"/fleet?color=verdict"))
	until(t, tab, drawn)
	until(t, tab, "document.getElementById('tools').innerText.includes('live')")
	shown := func(path string) string {
		return fmt.Sprintf("document.querySelector('[data-part] a[href=\"/node/%s\"]').closest('tr').innerText.includes('terminating')", path)
	}
	s.session.Change(8, 1)
	until(t, tab, shown("ip-10-0-0-16"))
	s.CloseClientConnections()
	s.session.Change(9, 1)
	until(t, tab, shown("ip-10-0-0-17"))
	run(t, tab, chromedp.Navigate(s.URL+"/"))
	until(t, tab, "document.getElementById('tools').innerText.includes('live')")
	before := ask[string](t, tab, "document.querySelector('[data-part]').innerText")
	s.session.Change(20, 5)
	until(t, tab, fmt.Sprintf("document.querySelector('[data-part]').innerText !== %q", before))
	run(t, tab, chromedp.Evaluate[chromedp.Void]("document.querySelector('#tools button').click()"))
	until(t, tab, "document.getElementById('tools').innerText.includes('paused')")
}

// TestNamesAreTextInABrowser puts what a browser would run into every name.
func TestNamesAreTextInABrowser(t *testing.T) {
	s := serve(t, 30)
	s.session.Rename(`<img src=x onerror="window.ran=1">"'</td><script>window.ran=2</script>`)
	tab, faults := open(t)
	for name, path := range paths() {
		run(t, tab, chromedp.Navigate(s.URL+path))
		if name == "fleet" {
			until(t, tab, drawn)
			run(t, tab, chromedp.Evaluate[chromedp.Void]("document.querySelector('.stage').focus()"), chromedp.MouseEvent("mouseMoved", 400, 400))
			until(t, tab, "document.getElementById('map-says').textContent.includes('<img') && document.querySelector('.tip').textContent.includes('<script>')")
		}
		if ask[bool](t, tab, "!!window.ran || document.querySelectorAll('img, main script').length > 0") {
			t.Errorf("%s: a name was taken for markup", path)
		}
	}
	for _, fault := range faults() {
		if !strings.Contains(fault, "404") {
			t.Error(fault)
		}
	}
}

// TestAccessible tries the rules of axe-core on every page, light and dark.
func TestAccessible(t *testing.T) {
	if *axe == "" {
		t.Skip("AXE_JS does not name axe.min.js of axe-core: make test-browser fetches it")
	}
	rules, err := os.ReadFile(*axe)
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, 60)
	tab, _ := open(t)
	for _, colours := range []string{"light", "dark"} {
		scheme(t, tab, colours)
		for name, path := range paths() {
			run(t, tab, chromedp.Navigate(s.URL+path))
			if name == "fleet" {
				until(t, tab, drawn)
			}
			run(t, tab, chromedp.Evaluate[chromedp.Void](string(rules)+"; undefined"))
			found := ask[[]string](t, tab, `axe.run().then((r) => r.violations.filter((v) => v.impact === "serious" || v.impact === "critical").map((v) => v.id + ": " + v.help + " " + v.nodes.map((n) => n.target + " " + n.failureSummary).join("; ")))`)
			for _, f := range found {
				t.Errorf("%s, %s: %s", path, colours, f)
			}
		}
	}
}

// TestReducedColours draws the map where the system chooses the colours.
func TestReducedColours(t *testing.T) {
	s := serve(t, 60)
	tab, faults := open(t)
	if err := call(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "forced-colors", Value: "active"}, {Name: "prefers-reduced-motion", Value: "reduce"}}}); err != nil {
		t.Fatal(err)
	}
	run(t, tab, chromedp.Navigate(s.URL+"/fleet"))
	until(t, tab, drawn)
	if moving := ask[int](t, tab, "document.getAnimations().length"); moving > 0 {
		t.Errorf("%d things move", moving)
	}
	for _, fault := range faults() {
		t.Error(fault)
	}
}
