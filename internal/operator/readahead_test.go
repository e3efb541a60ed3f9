package operator

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// readCounter is a body that counts how often it is read.
type readCounter struct {
	io.Reader
	reads  int
	closed bool
}

// Read reads.
func (b *readCounter) Read(p []byte) (int, error) {
	b.reads++
	return b.Reader.Read(p)
}

// Close notes that it was closed.
func (b *readCounter) Close() error {
	b.closed = true
	return nil
}

// TestReadAhead: a body that is read in small parts is read from the connection in large ones, and closed.
func TestReadAhead(t *testing.T) {
	t.Parallel()
	const parts, size = 1000, 1024
	body := &readCounter{Reader: strings.NewReader(strings.Repeat("x", parts*size))}
	answer, err := readAhead{roundTrip(func(*http.Request) (*http.Response, error) { return &http.Response{Body: body}, nil })}.RoundTrip(nil)
	if err != nil {
		t.Fatal(err)
	}
	for range parts {
		if _, err := io.ReadFull(answer.Body, make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	if most := parts*size/readAheadSize + 1; body.reads > most {
		t.Errorf("it was read %d times, want %d at most", body.reads, most)
	}
	if err := answer.Body.Close(); err != nil || !body.closed {
		t.Errorf("the body is not closed: %v", err)
	}
}
