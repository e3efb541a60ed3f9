package cli

import (
	"archive/zip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
	"github.com/dovetail-sh/dovetail/internal/view/live"
)

// TestAReport writes reports about a pod, from a controller that has no views and from a file, and reads them as journals.
func TestAReport(t *testing.T) {
	t.Parallel()
	j, path := keptDecision(t)
	mux := http.NewServeMux()
	mux.Handle(journal.Path+"/", j.Handler())
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	for _, from := range []string{"--address=" + srv.URL, "--journal=" + path} {
		for flag, pod := range map[string]string{"": "pod-1", " --redact=false": "huge"} {
			file := filepath.Join(t.TempDir(), "report.zip")
			says := called(t, 0, "report pod huge -n default -o "+file+" "+from+flag)
			for _, want := range []string{"report.txt ", "explain.json ", "decisions.dovetail-journal ", "decisions 1.6fb9m0, with what was seen", "wrote " + file} {
				if !strings.Contains(says, want) {
					t.Errorf("%q is not said:\n%s", want, says)
				}
			}
			if notes := strings.Count(says, "the state of the cluster is not in it"); (notes == 1) != strings.HasPrefix(from, "--address") {
				t.Errorf("it says %d times that views are missing:\n%s", notes, says)
			}
			for line, want := range map[string]string{
				"replay " + file: "same plan",
				"explain pod " + pod + " --journal " + file: "TooLarge",
				"decision 1 --journal " + file:              "TooLarge",
			} {
				if says := called(t, 0, line); !strings.Contains(says, want) {
					t.Errorf("%s%s says %q, want %q", line, flag, says, want)
				}
			}
		}
		for line, want := range map[string]struct {
			status int
			says   string
		}{
			"report pod nobody":             {4, "pod nobody"},
			"report":                        {2, "accepts between 1 and 2 arg(s)"},
			"report planet earth":           {2, "no kind that can be asked about"},
			"report pod shop/web -n office": {2, "name two namespaces"},
			"report pod huge -o /nowhere/x": {1, "--output: open /nowhere/x"},
			"report pod huge --list":        {0, "explain.json"},
		} {
			if says := called(t, want.status, line+" "+from); !strings.Contains(says, want.says) {
				t.Errorf("%s %s says %q, want %q", line, from, says, want.says)
			}
		}
	}
	if left, _ := filepath.Glob("dovetail-report-*"); len(left) > 0 {
		t.Errorf("--list wrote %v", left)
	}
}

// TestAReportHasNoNames looks for what people chose in what a report prints of a pod.
func TestAReportHasNoNames(t *testing.T) {
	t.Parallel()
	_, path := keptDecision(t)
	text := string(must(os.ReadFile(path)))
	if !strings.Contains(text, "general-1") && !strings.Contains(text, "pieces") {
		t.Fatal("the journal has no names")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "report.zip")
	called(t, 0, "report pod w -o "+file+" --journal="+path)
	says := called(t, 0, "explain pod pod-2 -o json --journal "+file) + called(t, 0, "decision 1 -o json --journal "+file)
	for _, name := range []string{"general", "huge", "default"} {
		if strings.Contains(says, name) {
			t.Errorf("%q is in\n%s", name, says)
		}
	}
}

// TestAReportHasTheStateOfTheCluster asks a controller with views.
func TestAReportHasTheStateOfTheCluster(t *testing.T) {
	t.Parallel()
	j, _ := keptDecision(t)
	snap, err := story.Parse("type small cpu=2 memory=8Gi price=0.10\npool general unready=its_class_is_secret-thing\nnode ip-1 pool=general type=small\npod w cpu=1\npod huge cpu=100\n")
	if err != nil {
		t.Fatal(err)
	}
	latest := &live.Latest{}
	latest.Provisioned(snap, nil, nil)
	mux := http.NewServeMux()
	mux.Handle(journal.Path+"/", j.Handler())
	mux.Handle(live.Path+"/", (&live.Views{Latest: latest, Now: story.Now}).Handler())
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	for flag, want := range map[string][2]string{"--redact=false": {"NodePool general: nothing is launched from it: its class is secret-thing", "pool-1"}, "--redact": {"NodePool pool-1: nothing is launched from it: its class is word-x", "secret"}} {
		file := filepath.Join(t.TempDir(), "report.zip")
		called(t, 0, "report nodepool general "+flag+" -o "+file+" --address="+srv.URL)
		archive := must(zip.OpenReader(file))
		t.Cleanup(func() { _ = archive.Close() })
		text := string(must(io.ReadAll(must(archive.Open("report.txt")))))
		if !strings.Contains(text, want[0]) || strings.Contains(text, want[1]) {
			t.Errorf("%s: want %q and not %q in\n%s", flag, want[0], want[1], text)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestAReportKnowsTheNamesInAnswers: the journal may have dropped the snapshots that say which words are names. These are
// words of verdicts, too.
func TestAReportKnowsTheNamesInAnswers(t *testing.T) {
	t.Parallel()
	r := &subjectReport{
		subject: journal.Subject{Kind: journal.KindPod, Namespace: "limits", Name: "memory"},
		answers: []journal.Answer{{
			Kind: journal.KindPod, Name: "limits/memory", UID: "1-2", Node: "window", Claim: "spread", Pool: "cheapest",
			Now: "pod memory runs on node window of nodepool cheapest", Says: []journal.Say{{What: "launched nodeclaim spread for limits/memory"}},
		}},
	}
	if err := r.redacted(); err != nil {
		t.Fatal(err)
	}
	parts, err := r.parts(true, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		for _, name := range []string{"limits", "memory", "window", "spread", "cheapest"} {
			if strings.Contains(string(p.text), name) {
				t.Errorf("%s has %q:\n%s", p.name, name, p.text)
			}
		}
	}
}
