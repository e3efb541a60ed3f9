package cli

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/view"
)

// TestViewsOfAJournal makes views of a journal, of a decision that was shared, and of a report.
func TestViewsOfAJournal(t *testing.T) {
	t.Parallel()
	_, path := keptDecision(t)
	shared, report := filepath.Join(t.TempDir(), "shared.txt"), filepath.Join(t.TempDir(), "report.zip")
	called(t, 0, "share 1 -o "+shared+" --journal "+path)
	called(t, 0, "report pod huge -n default -o "+report+" --journal "+path)
	for _, file := range []string{path, shared, report} {
		v, err := openViews(t.Context(), file, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		views, err := v.viewsAt(0)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := views.Of("pending", "")
		pending, is := answer.(view.Pending)
		if err != nil || !is || pending.Pods != 2 || len(pending.Groups) != 1 || pending.Groups[0].Pods != 1 {
			t.Errorf("%s: %+v, %v", file, answer, err)
		}
		s, err := v.session()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Explain(t.Context(), journal.Subject{Kind: journal.KindPod, Name: "nobody"}); err == nil || !strings.Contains(err.Error(), "no decision is about pod nobody") {
			t.Errorf("%s about nobody: %v", file, err)
		}
	}
}

// TestPagesOfAJournal serves the pages of a file, to this computer alone, until the context ends.
func TestPagesOfAJournal(t *testing.T) {
	t.Parallel()
	_, path := keptDecision(t)
	ctx, end := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan int)
	go func() { ended <- Main(ctx, []string{"ui", "--journal", path}, in, io.Discard) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimSpace(line)
	for page, want := range map[string]string{"": "1 pod can have no node", "pending": "huge", "decisions?since=all": "general-1", "decision/1": "general-1", "debug/view/pools": `"kind":"Pools"`, "at/?n=1&page=/fleet": "moment 1 of 1"} {
		answer, err := http.Get(address + page)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("/%s: %s, want %q in\n%s", page, answer.Status, want, body)
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "evil.example"
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusForbidden {
		t.Errorf("under another name: %s", answer.Status)
	}
	end()
	if status := <-ended; status != 0 {
		t.Errorf("after Ctrl-C: status %d", status)
	}
}
