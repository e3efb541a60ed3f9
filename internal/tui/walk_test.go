package tui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
	"github.com/dovetail-sh/dovetail/internal/view"
	"github.com/dovetail-sh/dovetail/internal/view/live"
)

// TestQuestions answers what people ask most, each from the first screen and with no more keys than promised.
func TestQuestions(t *testing.T) {
	t.Parallel()
	for question, want := range map[string]struct {
		keys  string
		most  int // keys; a name that is typed counts as one
		shows []string
	}{
		"1 why is my pod pending, and what would help":            {"p ⏎", 2, []string{"no instance type holds 64 cpu", "what would help: it ends when a larger instance type", "no node can take it"}},
		"2 why hasn't that node gone":                             {"/10-0-2-2 ⏎", 3, []string{"stays", "PodDisruptionBudget db allows no eviction"}},
		"3 is the autoscaler healthy":                             {"", 0, []string{"1 to look at"}},
		"3 what is wrong with it":                                 {"h", 1, []string{"1 pod can have no node"}},
		"4 what happened in the last hour":                        {"d", 1, []string{"#17", "1 pod to nodes that are there", "#16"}},
		"5 why this type, zone, spot":                             {"c down ⏎ t", 4, []string{"instancetype four", "spot in a is short"}},
		"6 what do we pay, and how far from the least":            {"", 0, []string{"$0.8800/h", "$642/mo"}},
		"7 what will it do next, and when":                        {"f", 1, []string{"Nov 21 13:00:00  NodePool batch", "waits"}},
		"8 what did drift, expiry, consolidation do":              {"d r", 2, []string{"DECISIONS(1 of 3)", "disruption", "1 node to remove"}},
		"9 why was my pod evicted":                                {"/web-gone ⏎", 3, []string{"evicted: its node was drifted"}},
		"10 what blocks consolidation, by cause, in money":        {"b", 1, []string{"$0.4000", "PodDisruptionBudget db"}},
		"13 which pool is near its limit, which budget is closed": {"o", 1, []string{"0 of 0, more at Nov 21 13:00:00", "cpu 12/"}},
		"14 why did the bill jump":                                {"$ s", 2, []string{"+0.2000", "1 node to launch"}},
		"15 which offerings are short, learned from what":         {"a", 1, []string{"four  a     spot      short  Nov 21 12:03:00", "1 time no capacity at a launch"}},
		"16 who uses the money, by namespace":                     {"w", 1, []string{"default", "$0.5300", "60 %"}},
		"17 why did a launch fail, how often, what is tried next": {"c down ⏎", 3, []string{"launch failed (RequestLimitExceeded)", "1h1m ago  3 ", "the launch is tried again at"}},
		"18 where are the holes":                                  {"n s", 2, []string{"sort: waste"}},
		"19 can it be repeated, can I send it to someone":         {"d ⏎ x", 3, []string{"dovetail replay --id 18.k3f9", "wrote decision 18.k3f9 to decision-18.k3f9.txt"}},
	} {
		save := func(_ context.Context, id string) (string, error) { return "decision-" + id + ".txt", nil }
		h := take(t, Options{Source: openRecording(t), Helpers: Helpers{Save: save}}, 120, 40)
		count := 0
		for _, word := range strings.Fields(want.keys) {
			if count++; strings.HasPrefix(word, "/") {
				count++
			}
		}
		h.press(want.keys)
		screen := h.screen()
		if count > want.most {
			t.Errorf("%s: %d keys, promised %d", question, count, want.most)
		}
		for _, text := range want.shows {
			if !strings.Contains(screen, text) {
				t.Errorf("%s: %q does not show %q:\n%s", question, want.keys, text, screen)
			}
		}
	}
}

// TestTheSourceIsAskedAtLeisure: for a screen only what it needs, one question at a time, and while nothing
// is answered the old moment stays.
func TestTheSourceIsAskedAtLeisure(t *testing.T) {
	t.Parallel()
	k := newKnown(t, small)
	h := take(t, Options{Source: k}, 100, 20)
	if k.asked[PartFleet] != 1 || k.asked[partOverview] != 1 || k.asked[partPending] != 0 {
		t.Errorf("for the first screen: asked %v", k.asked)
	}
	h.press("p")
	h.press("n p")
	if k.asked[partPending] != 1 || k.asked[PartFleet] != 1 {
		t.Errorf("for what is known already: asked %v", k.asked)
	}
	h.p.asking = true
	h.press("o b")
	if k.asked[partPools]+k.asked[partBlockers] != 0 {
		t.Errorf("while a question is under way: asked %v", k.asked)
	}
	h.send(answerMsg{at: story.Now()})
	if k.asked[partPools] != 0 || k.asked[partBlockers] != 1 {
		t.Errorf("after it: asked %v", k.asked)
	}
	k.err = errors.New("it is\x1b[2J away")
	h.press("n")
	h.send(askMsg{})
	h.send(clockMsg(story.Now().Add(5 * time.Second)))
	if s := h.screen(); !strings.Contains(s, "no answer for 5s: it is [2J away") || !strings.Contains(s, "ip-10-0-2-2") {
		t.Errorf("when nobody answers:\n%s", s)
	}
	k.err = nil
	h.send(askMsg{})
	if s := h.screen(); strings.Contains(s, "no answer") {
		t.Errorf("when somebody answers again:\n%s", s)
	}
	h.press("space")
	asked := k.asked[PartFleet]
	h.p.moment.At = time.Time{}
	if h.send(askMsg{}); k.asked[PartFleet] != asked+1 || !h.p.moment.At.IsZero() {
		t.Errorf("while paused: asked %d times more, the screen is of %s", k.asked[PartFleet]-asked, h.p.moment.At)
	}
}

// TestCostIsDividedByAKey divides cost by workload, and explains one.
func TestCostIsDividedByAKey(t *testing.T) {
	t.Parallel()
	h := take(t, Options{Source: newKnown(t, small)}, 100, 20)
	h.press("w t")
	if s := h.screen(); !strings.Contains(s, "COST(6) by workload") {
		t.Errorf("t:\n%s", s)
	}
	h.press("t")
	if s := h.screen(); !strings.Contains(s, "by namespace") {
		t.Errorf("t again:\n%s", s)
	}
}

func TestMouse(t *testing.T) {
	t.Parallel()
	h := take(t, Options{Source: openRecording(t)}, 100, 20)
	h.send(tea.MouseClickMsg{X: 5, Y: 5, Button: tea.MouseLeft})
	if h.p.list().cursor != 1 {
		t.Errorf("a click on the second row: %d", h.p.list().cursor)
	}
	h.send(tea.MouseClickMsg{X: 5, Y: 5, Button: tea.MouseLeft})
	if h.p.open == nil || !strings.Contains(h.p.open.title, "ip-10-0-1-7") {
		t.Errorf("a click on the row under the cursor:\n%s", h.screen())
	}
	h.press("esc")
	h.send(tea.MouseClickMsg{X: 3, Y: 3, Button: tea.MouseLeft})
	if l := h.p.list(); l.by != nodeName || l.reversed {
		t.Errorf("a click on a title: sorted by %d, reversed %t", l.by, l.reversed)
	}
	h.send(tea.MouseWheelMsg{Button: tea.MouseWheelDown})
	if h.p.list().cursor == 0 {
		t.Error("the wheel moves nothing")
	}
	h.send(tea.MouseClickMsg{X: 3, Y: 19, Button: tea.MouseLeft})
}

// TestColorsAreLeftOut: nothing but text is drawn without colors.
func TestColorsAreLeftOut(t *testing.T) {
	t.Parallel()
	for _, colors := range []bool{false, true} {
		h := take(t, Options{Source: openRecording(t), Colors: colors}, 100, 20)
		if got := strings.Contains(h.p.frame(), "\x1b"); got != colors {
			t.Errorf("colors %t: escape sequences %t", colors, got)
		}
		h = take(t, Options{Source: openRecording(t), Colors: colors, ASCII: true}, 100, 20)
		for _, key := range strings.Split("n p c o d b f w a h ⏎ ?", " ") {
			h.press(key)
			if s := ansi.Strip(h.p.frame()); strings.ContainsFunc(s, func(r rune) bool { return r > 127 }) {
				t.Errorf("ASCII, %s:\n%s", key, s)
			}
		}
	}
}

// TestBadRecordings: each is refused with a reason, or read as far as it is whole.
func TestBadRecordings(t *testing.T) {
	t.Parallel()
	good := recorded(t)
	if _, err := readSession(strings.NewReader("{}")); err == nil || !strings.Contains(err.Error(), "no recording") {
		t.Errorf("not compressed: %v", err)
	}
	if s, err := readSession(strings.NewReader(string(good[:len(good)-9]))); err != nil || len(s.moments) != 2 {
		t.Errorf("cut: %v", err)
	}
	for text, says := range map[string]string{
		`{"format":"dovetail-session/9"}`: `"dovetail-session/9"`,
		`{"format":"dovetail-session/1"}`: "nothing was recorded",
		`{"format":"dovetail-session/1"}` + "\n" + `{"at":"2026-01-01T00:00:00Z","parts":{"fleet":7}}`: "line 2: fleet",
		`{"format":"dovetail-session/1"}` + "\n" + `x`:                                                 "line 2",
	} {
		file := &closable{}
		r := NewRecorder(file, "")
		file.Reset()
		r.zip.Reset(file)
		_, _ = r.zip.Write([]byte(text + "\n"))
		_ = r.Close()
		if _, err := readSession(&file.Buffer); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}

// TestARecordingEnds: it says why, once.
func TestARecordingEnds(t *testing.T) {
	t.Parallel()
	file := &closable{}
	h := take(t, Options{Source: newKnown(t, small), Recorder: NewRecorder(file, "prod")}, 100, 20)
	if s := h.screen(); !strings.Contains(s, "recording") {
		t.Errorf("while it is recorded:\n%s", s)
	}
	h.press("g j down ⏎ esc")
	h.p.opts.Recorder.written = sessionBytesMost + 1
	h.press("g j down ⏎ esc")
	if s := h.screen(); !strings.Contains(s, "the recording ended at 256 MiB") {
		t.Errorf("when it is too large:\n%s", s)
	}
	if err := h.p.opts.Recorder.Close(); err != nil {
		t.Error(err)
	}
	if s, err := readSession(&file.Buffer); err != nil || s.moments[0].Cost == nil {
		t.Errorf("what was recorded before: %v", err)
	}
}

// hostile is a source whose texts are made to break a screen.
type hostile struct{ *known }

func (hostile) Name() string { return "界界\x1b[31m\u202e" + strings.Repeat("x", 300) }

func (h hostile) Fill(ctx context.Context, part, by string, into any) error {
	err := h.known.Fill(ctx, part, by, into)
	const text = "日本語\x1b]0;x\x07\r\n\t👩‍👩‍👧‍👦 e\u0301\u200b wide "
	switch v := into.(type) {
	case *view.Fleet:
		for i := range v.Pools {
			v.Pools[i].Nodes = slices.Clone(v.Pools[i].Nodes)
			for k := range v.Pools[i].Nodes {
				v.Pools[i].Nodes[k].Name += text
				v.Pools[i].Nodes[k].Status.Text = strings.Repeat(text, 9)
			}
		}
	case *view.Pending:
		v.Groups = slices.Clone(v.Groups)
		for i := range v.Groups {
			v.Groups[i].Text = strings.Repeat(text, 20)
			v.Groups[i].Workloads = nil
		}
	}
	return err
}

// FuzzKeys presses any keys on screens of any size: no line is wider than the screen, and there are as many
// lines as it is high.
func FuzzKeys(f *testing.F) {
	for _, seed := range []string{"npcodbfwah?yqsSG/ab\r", "p\r\x1b/-l x\r", "\x00\x01\x02n\rt", "/\xff\xfe\r", "wtwt[].,  ", "n/pool:g\rrr\x1bssss"} {
		f.Add([]byte(seed), uint8(80), uint8(24), false)
		f.Add([]byte(seed), uint8(20), uint8(5), true)
	}
	f.Fuzz(func(t *testing.T, keys []byte, width, height uint8, ascii bool) {
		h := take(t, Options{Source: hostile{newKnown(t, small)}, ASCII: ascii, Colors: !ascii}, 0, 0)
		random := rand.New(rand.NewPCG(uint64(width), uint64(height)))
		w, high := max(20, int(width)), max(5, int(height))
		h.send(tea.WindowSizeMsg{Width: w, Height: high})
		for _, b := range keys {
			switch b {
			case 0:
				w, high = 20+random.IntN(230), 5+random.IntN(80)
				h.send(tea.WindowSizeMsg{Width: w, Height: high})
			case 1:
				h.send(tea.MouseClickMsg{X: random.IntN(w), Y: random.IntN(high), Button: tea.MouseLeft})
			case 2:
				h.send(tea.MouseWheelMsg{Button: []tea.MouseButton{tea.MouseWheelUp, tea.MouseWheelDown}[random.IntN(2)]})
			case 3:
				h.send(tea.PasteMsg{Content: "general\n\x1b[2J" + string(keys)})
			case 4, 5, 6, 7:
				h.send(tea.KeyPressMsg{Code: []rune{tea.KeyDown, tea.KeyUp, tea.KeyPgDown, tea.KeyPgUp}[b-4]})
			case '\r':
				h.send(tea.KeyPressMsg{Code: tea.KeyEnter})
			case 0x1b:
				h.send(tea.KeyPressMsg{Code: tea.KeyEscape})
			default:
				h.send(tea.KeyPressMsg{Code: rune(b), Text: string(rune(b))})
			}
			lines := strings.Split(h.p.frame(), "\n")
			if len(lines) != high {
				t.Fatalf("%d lines on a screen of %dx%d", len(lines), w, high)
			}
			for _, line := range lines {
				if got := ansi.StringWidth(line); got > w {
					t.Fatalf("a line of %d on a screen of %dx%d: %q", got, w, high, line)
				}
			}
			if v := h.p.view(); v.Cursor != nil && (v.Cursor.X >= w || v.Cursor.Y >= high) {
				t.Fatalf("the cursor is at %d,%d on a screen of %dx%d", v.Cursor.X, v.Cursor.Y, w, high)
			}
		}
	})
}

// many returns a source with so many nodes, which run twenty pods each.
func many(b *testing.B, nodes int) *known {
	b.Helper()
	var text strings.Builder
	text.WriteString("type eight cpu=8 memory=16Gi price=0.40 spot=0.1 zones=a,b,c\npool general\npool batch\n")
	for i := range nodes {
		pool := []string{"general", "batch"}[i%2]
		fmt.Fprintf(&text, "node ip-10-%d-%d pool=%s type=eight zone=%s\n", i/250, i%250, pool, []string{"a", "b", "c"}[i%3])
		for g := range 5 {
			fmt.Fprintf(&text, "running app%d on=ip-10-%d-%d cpu=%dm memory=500Mi count=4 app=app%d\n", (i+g)%97, i/250, i%250, 100+i%200, (i+g)%97)
		}
	}
	snap, err := story.Parse(text.String())
	if err != nil {
		b.Fatal(err)
	}
	latest := &live.Latest{}
	latest.Provisioned(snap, nil, nil)
	return &known{views: &live.Views{Latest: latest, Now: func() time.Time { return snap.At }}, asked: map[string]int{}}
}

// nodesMany is how many nodes the benchmarks have: what has to be fast.
const nodesMany = 5000

// measured runs something and reports the 99th percentile of what it takes.
func measured(b *testing.B, run func(i int)) {
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		began := time.Now() //nolint:forbidigo // a benchmark
		run(i)
		took = append(took, time.Since(began)) //nolint:forbidigo // likewise
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

// BenchmarkTop measures what a person waits for at 5,000 nodes with 100,000 pods: a frame, a letter of a filter, another
// order, another moment.
func BenchmarkTop(b *testing.B) {
	h := take(b, Options{Source: many(b, nodesMany), Colors: true}, 200, 60)
	b.Run("frame", func(b *testing.B) {
		measured(b, func(i int) {
			h.p.list().cursor = i * 37 % nodesMany
			_ = h.p.frame()
		})
	})
	b.Run("filter", func(b *testing.B) {
		measured(b, func(i int) {
			h.press([]string{"/", "g", "e", "n", "esc"}[i%5])
			_ = h.p.frame()
		})
	})
	h.press("esc")
	b.Run("sort", func(b *testing.B) {
		measured(b, func(int) {
			h.press("s")
			_ = h.p.frame()
		})
	})
	b.Run("moment", func(b *testing.B) {
		rows := nodeRows(&h.p.moment, part{&h.p.theme}) // made beside the frames
		measured(b, func(int) {
			h.p.list().fill(slices.Clone(rows))
			_ = h.p.frame()
		})
	})
}

// remote asks a server, as dovetail top asks a controller.
type remote struct {
	*known
	address string
}

func (r remote) Fill(ctx context.Context, part, _ string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.address+live.Path+"/"+part, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close() //nolint:errcheck // it was read only
	return json.NewDecoder(answer.Body).Decode(into)
}

func (r remote) Explain(context.Context, journal.Subject) ([]journal.Answer, error) { return nil, nil }

// BenchmarkStart measures the time from nothing to the first screen with all nodes, from a controller that
// has made no view yet.
func BenchmarkStart(b *testing.B) {
	k := many(b, nodesMany)
	measured(b, func(int) {
		srv := httptest.NewServer((&live.Views{Latest: k.views.Latest, Now: k.views.Now}).Handler())
		h := take(b, Options{Source: remote{k, srv.URL}}, 200, 60)
		if !strings.Contains(h.p.frame(), "NODES(5000)") {
			b.Fatal(h.screen())
		}
		srv.Close()
	})
}
