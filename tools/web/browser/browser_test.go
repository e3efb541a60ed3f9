package browser

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// pictures is where TestScreenshots writes; empty: nowhere.
var pictures = flag.String("pictures", "", "the directory that TestScreenshots writes to")

// patience bounds what a browser may take for anything, on a computer that is busy.
const patience = 2 * time.Minute

// open returns a tab of a new browser, and what it complained of and asked other hosts for.
func open(t *testing.T, more ...chromedp.ExecAllocatorOption) (tab context.Context, faults func() []string) {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed: the pages are not tested in a browser (Debian: apt-get install chromium)")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1280, 800), chromedp.Flag("lang", "en-GB"))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, append(options, more...)...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	said := make(chan string, 1000)
	if err := call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	messages, requests := chromedp.Console(ctx), chromedp.Events(ctx, network.RequestWillBeSent)
	go func() {
		for m, err := range messages {
			if err == nil {
				said <- "the console says: " + m.String()
			}
		}
	}()
	go func() {
		for e, err := range requests {
			if err == nil && !strings.HasPrefix(e.Request.URL, "http://127.0.0.1:") {
				said <- "a request left loopback: " + e.Request.URL
			}
		}
	}()
	if err := call(ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Europe/Berlin"}); err != nil {
		t.Fatal(err)
	}
	if err := call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}); err != nil {
		t.Fatal(err)
	}
	return ctx, func() (all []string) {
		for {
			select {
			case text := <-said:
				all = append(all, text)
			default:
				return all
			}
		}
	}
}

func call[P, R any](ctx context.Context, c cdp.Command[P, R], params P) error {
	_, err := chromedp.Call(ctx, c, params)
	return err
}

func run(t *testing.T, tab context.Context, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(tab, actions...); err != nil {
		t.Fatal(err)
	}
}

// ask returns what an expression is in the page, after promises.
func ask[T any](t *testing.T, tab context.Context, expression string) T {
	t.Helper()
	v, err := chromedp.Run(tab, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// until waits until an expression is true in the page, or in the page that comes after it.
func until(t *testing.T, tab context.Context, expression string) {
	t.Helper()
	for {
		_, err := chromedp.Run(tab, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(time.Minute)))
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "context with specified id") || tab.Err() != nil { // it went with its page
			t.Fatalf("%s: %v; the page says %s", expression, err, ask[string](t, tab, "document.body.innerText.slice(0, 1500)"))
		}
	}
}

// follow does what leads to another page, and waits until that is there.
func follow(t *testing.T, tab context.Context, action chromedp.Action[chromedp.Void]) {
	t.Helper()
	if _, err := chromedp.RunResponse(tab, action); err != nil {
		t.Fatal(err)
	}
}

// drawn is when the map is there with its workloads.
const drawn = `!!document.querySelector("#map[data-drawn]")`

func scheme(t *testing.T, tab context.Context, name string) {
	t.Helper()
	if err := call(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}}); err != nil {
		t.Fatal(err)
	}
}

// paths are pages of the session.
func paths() map[string]string {
	return map[string]string{
		"overview": "/", "fleet": "/fleet", "pending": "/pending", "decisions": "/decisions", "decision": "/decision/1.aaaaaa", "pools": "/pools", "pool": "/pool/legacy", "blockers": "/blockers", "next": "/next",
		"offerings": "/offerings", "cost": "/cost?by=workload", "node": "/node/ip-10-0-0-8", "explain": "/explain?q=nodeclaim%2Fc1", "explain, not asked": "/explain", "explain none": "/explain?q=none", "what-if": "/whatif?spot=80%25", "what-if, not asked": "/whatif", "none": "/node/none",
		"pool of a moment": "/at/1.aaaaaa/pool/legacy", "decision of a moment": "/at/2.aaaaaa/decision/1.aaaaaa", "no moment": "/at/9.aaaaaa/",
	}
}

// TestScreenshots writes pictures of the pages, light and dark.
func TestScreenshots(t *testing.T) {
	if *pictures == "" {
		t.Skip("no directory is given: make screenshots does")
	}
	s := serve(t, 120)
	tab, _ := open(t)
	for _, colours := range []string{"light", "dark"} {
		scheme(t, tab, colours)
		for name, path := range paths() {
			run(t, tab, chromedp.Navigate(s.URL+path))
			if name == "fleet" {
				until(t, tab, drawn)
			}
			picture, err := chromedp.Run(tab, chromedp.CaptureScreenshot())
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(*pictures, name+"-"+colours+".png"), picture, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
