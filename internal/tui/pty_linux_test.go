package tui

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/sys/unix"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// pseudoTerminal returns both ends of a terminal of 120 columns and 30 lines.
func pseudoTerminal(t *testing.T) (hand, screen *os.File) {
	t.Helper()
	hand, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this system has no pseudo terminals: %v", err)
	}
	t.Cleanup(func() { _ = hand.Close() })
	conn, err := hand.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	number := 0
	if err := conn.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
		if err == nil {
			err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 120})
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	return hand, screen
}

// TestOnATerminal runs the program on a pseudo terminal: it draws, takes keys, copies by the terminal, and ends.
func TestOnATerminal(t *testing.T) {
	t.Parallel()
	hand, screen := pseudoTerminal(t)
	drawn := make(chan []byte, 1000)
	go func() {
		for {
			b := make([]byte, 1<<16)
			n, err := hand.Read(b)
			if err != nil {
				close(drawn)
				return
			}
			drawn <- b[:n]
		}
	}()
	ended := make(chan error, 1)
	var cast bytes.Buffer
	opts := Options{
		Source: newKnown(t, small), Now: story.Now, In: screen, Out: screen, Cast: &cast, Environ: []string{"TERM=xterm-256color"},
		Helpers: Helpers{
			Link: func() string { return "http://here" },
			Save: func(_ context.Context, id string) (string, error) { return "file-" + id, nil },
			Events: func(context.Context, journal.Subject) ([]string, error) {
				return []string{"Evented"}, nil
			},
		},
	}
	go func() { ended <- Run(t.Context(), opts) }()
	within, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	until := func(what, raw string) {
		t.Helper()
		var all []byte
		for !bytes.Contains(all, []byte(raw)) && !bytes.Contains([]byte(ansi.Strip(string(all))), []byte(raw)) {
			select {
			case b, ok := <-drawn:
				if !ok {
					t.Fatalf("%s: the terminal was closed before %q was drawn", what, raw)
				}
				all = append(all, b...)
			case <-within.Done():
				t.Fatalf("%s: %q was not drawn:\n%s", what, raw, ansi.Strip(string(all)))
			}
		}
	}
	press := func(keys string) {
		t.Helper()
		if _, err := hand.WriteString(keys); err != nil {
			t.Fatal(err)
		}
	}
	until("the first screen", "ip-10-0-2-2")
	press("u")
	until("u", ansi.SetClipboard('c', "http://here/node/ip-10-0-3-9"))
	press("e")
	until("e", "Evented")
	press("d")
	until("d", "DECISIONS(3)")
	press("x")
	until("x", "file-18.k3f9")
	press("$")
	until("$", "PRICE(3)")
	press("q")
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-within.Done():
		t.Fatal("q does not end it")
	}
	head, events, _ := strings.Cut(cast.String(), "\n")
	if !strings.HasPrefix(head, `{"height":30,"timestamp":`) || !strings.HasSuffix(head, `"version":2,"width":120}`) || !strings.Contains(events, "ip-10-0-2-2") || !strings.Contains(events, "PRICE(3)") {
		t.Errorf("the cast begins with %s and is\n%s", head, events)
	}
}
