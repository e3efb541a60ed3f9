package journal

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// asked returns what a controller answers about a subject: the status and, as a person reads it, the answer.
func asked(t *testing.T, j *Journal, s Subject) (status int, text string) {
	t.Helper()
	server := httptest.NewServer(j.Handler())
	defer server.Close()
	q := url.Values{"kind": {s.Kind}, "namespace": {s.Namespace}, "name": {s.Name}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+Path+ExplainPath+"?"+q.Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck // it is read whole
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK {
		return answer.StatusCode, string(body)
	}
	var e Explained
	if err := json.Unmarshal(body, &e); err != nil || e.Format != explainFormat {
		t.Fatalf("%s: %v", body, err)
	}
	var b strings.Builder
	if err := Print(&b, e.Answers, story.Now()); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, b.String()
}

// TestTheHeadlineIsNow asks about a pod that was refused and runs by now: what it does comes first, and
// what was decided below.
func TestTheHeadlineIsNow(t *testing.T) {
	t.Parallel()
	j, _ := keep(t, Options{}, decide(t, 0, "pod w cpu=9\n"))
	pod := Subject{Kind: KindPod, Namespace: "default", Name: "w"}
	if _, text := asked(t, j, pod); !strings.HasPrefix(text, "pod default/w: refused (TooLarge)\n") {
		t.Errorf("without anybody who knows what it is now:\n%s", text)
	}
	j.SetLive(func(Subject) []State {
		return []State{{Kind: KindPod, Namespace: "default", Name: "w", UID: "w", Node: "n1", Now: "runs on node n1"}}
	})
	if _, text := asked(t, j, pod); !strings.HasPrefix(text, "pod default/w, node n1: runs on node n1\n") || !strings.Contains(text, "refused (TooLarge)") {
		t.Errorf("while it runs:\n%s", text)
	}
	j.SetLive(func(Subject) []State { return nil })
	if _, text := asked(t, j, pod); !strings.HasPrefix(text, "pod default/w: does not exist any more\n") {
		t.Errorf("when it is gone:\n%s", text)
	}
	j.SetLive(func(Subject) []State {
		return []State{{Kind: KindPod, Namespace: "default", Name: "w", UID: "w", Now: "waits for 1m0s: no node has room for it"}}
	})
	if _, text := asked(t, j, pod); !strings.Contains(text, "\n  until "+verdict.TooLarge.Ends()+"\n") {
		t.Errorf("while it waits it has no end:\n%s", text)
	}
}

// TestWhatExistsGetsAnAnswer asks about subjects of which no decision knows, and about what there is not.
func TestWhatExistsGetsAnAnswer(t *testing.T) {
	t.Parallel()
	j, _ := keep(t, Options{}, decide(t, 0, "pod w cpu=9\n"))
	j.SetLive(func(s Subject) []State {
		switch s {
		case Subject{Kind: KindPod, Name: "gated"}:
			return []State{{Kind: KindPod, Namespace: "default", Name: "gated", UID: "g", Now: "is left alone: gates", Ends: "they are removed"}}
		case Subject{Kind: "deployment", Name: "web"}:
			return []State{{Kind: "deployment", Namespace: "default", Name: "web", Now: "1 pod", Waiting: []cluster.PodRef{{Namespace: "default", Name: "w", UID: "w"}}}}
		}
		return nil
	})
	for name, tc := range map[string]struct {
		asked  Subject
		status int
		want   string
	}{
		"a pod that is left alone": {Subject{Kind: KindPod, Name: "gated"}, 200, "pod default/gated: is left alone: gates\n  until they are removed\n"},
		"a workload":               {Subject{Kind: "deployment", Name: "web"}, 200, "deployment default/web: 1 pod\n  1 pod (default/w): refused (TooLarge): pool general: no instance type holds 9 cpu"},
		"an instance type":         {Subject{Kind: KindType, Name: "small"}, 200, "instancetype small: 1 node\n"},
		"a type that nobody sells": {Subject{Kind: KindType, Name: "tiny"}, 404, "there is no instancetype tiny"},
		"a pod that there is not":  {Subject{Kind: KindPod, Name: "nobody"}, 404, "there is no pod nobody"},
		"a kind that there is not": {Subject{Kind: "moon", Name: "x"}, 400, "a kind that there is"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if status, text := asked(t, j, tc.asked); status != tc.status || !strings.Contains(text, tc.want) {
				t.Errorf("status %d, want %d, and %q in\n%s", status, tc.status, tc.want, text)
			}
		})
	}
}

func TestSubjectsAreWrittenAsForKubectl(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"pod nowhere": "pod nowhere", "pod/nowhere": "pod nowhere", "shop/nowhere": "pod shop/nowhere", "nowhere": "nowhere", "deploy web": "deployment web",
		"sts/shop/db": "statefulset shop/db", "Pods nowhere": "pod nowhere", "type m7g.large": "instancetype m7g.large", "pods/shop/x": "pod shop/x",
	} {
		if s, err := ParseSubject(strings.Fields(text)...); err != nil || s.String() != want {
			t.Errorf("%s: %s, error %v, want %s", text, s, err, want)
		}
	}
	for _, text := range []string{"moon x", "node/a/b", "pod/", "a/b/c"} {
		if s, err := ParseSubject(strings.Fields(text)...); err == nil {
			t.Errorf("%s is read as %s", text, s)
		}
	}
}
