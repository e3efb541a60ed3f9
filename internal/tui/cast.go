package tui

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"sync"
	"time"
	"unicode/utf8"

	xterm "github.com/charmbracelet/x/term"
)

// castBytesMost bounds what is written to a cast.
const castBytesMost = 256 << 20

// cast is a terminal of which all that is drawn is also written as asciinema plays it: asciicast, version 2. A nil cast
// takes in nothing.
type cast struct {
	xterm.File
	now   func() time.Time
	began time.Time

	mu      sync.Mutex // protects everything below
	to      io.Writer
	rest    []byte // the begin of a character that is not whole yet
	written int
	err     error // why it ended early
}

// newCast begins a cast of a terminal.
func newCast(out xterm.File, to io.Writer, now func() time.Time) (*cast, error) {
	width, height, err := xterm.GetSize(out.Fd())
	if err != nil {
		return nil, fmt.Errorf("size of the terminal: %w", err)
	}
	c := &cast{File: out, now: now, began: now(), to: to}
	c.line(map[string]any{"version": 2, "width": width, "height": height, "timestamp": c.began.Unix()})
	return c, nil
}

// Write draws, and writes down what is drawn.
func (c *cast) Write(b []byte) (int, error) {
	n, err := c.File.Write(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rest = append(c.rest, b[:n]...)
	whole := wholeRunes(c.rest)
	c.event("o", string(c.rest[:whole]))
	c.rest = append(c.rest[:0], c.rest[whole:]...)
	return n, err
}

// resize writes down that the terminal has another size.
func (c *cast) resize(width, height int) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.event("r", fmt.Sprintf("%dx%d", width, height))
}

func (c *cast) event(code, data string) {
	if data != "" {
		c.line([]any{math.Round(1e6*c.now().Sub(c.began).Seconds()) / 1e6, code, data})
	}
}

func (c *cast) line(v any) {
	if c.err != nil {
		return
	}
	text, err := json.Marshal(v)
	if err == nil && c.written+len(text) > castBytesMost {
		err = fmt.Errorf("it ended at %d MiB, which is as large as one may be", castBytesMost>>20)
	}
	if err == nil {
		c.written += len(text) + 1
		_, err = c.to.Write(append(text, '\n'))
	}
	c.err = err
}

// wholeRunes returns how many bytes belong to characters that are whole.
func wholeRunes(b []byte) int {
	for i := len(b) - 1; i >= max(0, len(b)-utf8.UTFMax); i-- {
		if utf8.RuneStart(b[i]) {
			if utf8.FullRune(b[i:]) {
				break
			}
			return i
		}
	}
	return len(b)
}
