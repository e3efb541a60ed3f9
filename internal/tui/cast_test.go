package tui

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestACastHasWholeCharacters draws a text byte by byte.
func TestACastHasWholeCharacters(t *testing.T) {
	t.Parallel()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() })
	now, began := time.Unix(100, 0), time.Unix(100, 0)
	var text bytes.Buffer
	c := &cast{File: out, now: func() time.Time { return now }, began: began, to: &text}
	for _, b := range []byte("a█\x1b[0m€") {
		now = now.Add(250 * time.Millisecond)
		if _, err := c.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	c.resize(80, 24)
	var drawn strings.Builder
	times := []float64{}
	last := []any{}
	for line := range strings.Lines(text.String()) {
		if err := json.Unmarshal([]byte(line), &last); err != nil || len(last) != 3 {
			t.Fatalf("%s: %v", line, err)
		}
		if last[1] == "o" {
			drawn.WriteString(last[2].(string))
			times = append(times, last[0].(float64))
		}
	}
	if drawn.String() != "a█\x1b[0m€" || c.err != nil {
		t.Errorf("drawn %q, %v", drawn.String(), c.err)
	}
	if diff := cmp.Diff([]float64{0.25, 1, 1.25, 1.5, 1.75, 2, 2.75}, times); diff != "" {
		t.Errorf("times (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]any{2.75, "r", "80x24"}, last); diff != "" {
		t.Errorf("the last event (-want +got)\n%s", diff)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

func TestACastThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() })
	c := &cast{File: out, now: story.Now, to: full{}}
	for range 2 {
		if n, err := c.Write([]byte("text")); n != 4 || err != nil { // it is drawn all the same
			t.Errorf("Write: %d, %v", n, err)
		}
	}
	if c.err == nil || c.err.Error() != "the disk is full" {
		t.Errorf("err = %v", c.err)
	}
}
