package tui

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
)

const (
	// sessionFormat is the version of recordings. A recording is lines of JSON, compressed: first a head,
	// then the parts of moments that changed and the explanations that were asked for, as they came.
	sessionFormat = "dovetail-session/1"
	// sessionBytesMost bounds what is written to a recording, and sessionReadMost what is read of one, which
	// is larger than its file.
	sessionBytesMost = 256 << 20
	sessionReadMost  = 4 << 30
	sessionLineMost  = 256 << 20
)

// sessionHead begins a recording.
type sessionHead struct {
	Format string `json:"format"`
	Source string `json:"source"`
}

// sessionLine is what came at one instant.
type sessionLine struct {
	At    time.Time                  `json:"at"`
	Parts map[string]json.RawMessage `json:"parts,omitempty"`
	// Subject is what was explained by Answers.
	Subject string           `json:"subject,omitempty"`
	Answers []journal.Answer `json:"answers,omitempty"`
}

// Recorder writes a session. Its methods may be called from any goroutine. A nil Recorder writes nothing.
type Recorder struct {
	mu      sync.Mutex // protects everything below
	out     io.WriteCloser
	zip     *gzip.Writer
	written int64             // to out
	last    map[string][]byte // the parts as they were written last
	err     error             // why it ended early
}

// NewRecorder records to a file, which it closes at the end. source is the name of what is recorded.
func NewRecorder(out io.WriteCloser, source string) *Recorder {
	r := &Recorder{out: out, last: map[string][]byte{}}
	r.zip = gzip.NewWriter(counting{r})
	r.line(sessionHead{sessionFormat, source})
	return r
}

// counting counts what is written to a recording.
type counting struct{ r *Recorder }

// Write writes to the recording.
func (c counting) Write(b []byte) (int, error) {
	n, err := c.r.out.Write(b)
	c.r.written += int64(n)
	return n, err
}

// moment records the parts that differ from what was recorded last, the instants of their snapshots aside.
func (r *Recorder) moment(at time.Time, parts map[string]any) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	line := sessionLine{At: at, Parts: map[string]json.RawMessage{}}
	for name, part := range parts {
		text, err := json.Marshal(part)
		if err != nil {
			r.err = cmp.Or(r.err, err)
			return
		}
		if body := withoutInstant(text); !bytes.Equal(body, r.last[name]) {
			r.last[name], line.Parts[name] = body, text
		}
	}
	if len(line.Parts) > 0 {
		r.line(line)
	}
}

// withoutInstant returns a view without the instant of its head.
func withoutInstant(text []byte) []byte {
	const key = `"at":"`
	if at := bytes.Index(text, []byte(key)); at >= 0 && bytes.HasPrefix(text, []byte(`{"format":`)) {
		if end := bytes.IndexByte(text[at+len(key):], '"'); end >= 0 {
			return slices.Concat(text[:at], text[at+len(key)+end:])
		}
	}
	return text
}

// explained records what was said of a subject.
func (r *Recorder) explained(at time.Time, s journal.Subject, answers []journal.Answer) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.line(sessionLine{At: at, Subject: s.String(), Answers: answers})
}

// line writes a line, so that what came before is whole in the file.
func (r *Recorder) line(v any) {
	if r.err != nil {
		return
	}
	if r.written > sessionBytesMost {
		r.err = fmt.Errorf("the recording ended at %d MiB, which is as large as one may be", sessionBytesMost>>20)
		return
	}
	text, err := json.Marshal(v)
	if err == nil {
		_, err = r.zip.Write(append(text, '\n'))
	}
	r.err = cmp.Or(err, r.zip.Flush())
}

// Err returns why the recording ended early; nil: it goes on.
func (r *Recorder) Err() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Close ends the recording.
func (r *Recorder) Close() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.zip.Close(), r.out.Close())
}

// Session plays a recording: a source whose clock is that of the recording. Its methods may be called
// from any goroutine.
type Session struct {
	source  string
	moments []Moment
	answers map[string][]journal.Answer // the last of each subject
	// load makes the moment of an index when it is looked at; nil: moments have them. ask answers about a subject then.
	load func(at int) Moment
	ask  func(journal.Subject) ([]journal.Answer, error)

	mu    sync.Mutex // protects everything below
	at    int        // in moments
	clock time.Time  // of the recording
	// syncedAt is when the clock was set, by that of the reader; zero: it was not.
	syncedAt time.Time
	speed    int
	halted   bool
	// loaded is what load made last, for loadedAt.
	loaded   Moment
	loadedAt int
}

// NewSession returns a session whose moments are made when they are looked at, the newest first: at says when each was, load
// makes the one of an index, and ask answers about a subject.
func NewSession(source string, at []time.Time, load func(at int) Moment, ask func(journal.Subject) ([]journal.Answer, error)) *Session {
	s := &Session{source: source, load: load, ask: ask, speed: 1, at: len(at) - 1, clock: at[len(at)-1], loadedAt: -1}
	for _, instant := range at {
		s.moments = append(s.moments, Moment{At: instant})
	}
	return s
}

// speedMost bounds how much faster a session is played than it was recorded.
const speedMost = 64

// OpenSession reads a recording.
func OpenSession(path string) (*Session, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was read only
	s, err := readSession(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

func readSession(from io.Reader) (*Session, error) {
	zip, err := gzip.NewReader(from)
	if err != nil {
		return nil, fmt.Errorf("this is no recording of dovetail top --record: %w", err)
	}
	s := &Session{answers: map[string][]journal.Answer{}, speed: 1}
	lines := bufio.NewScanner(io.LimitReader(zip, sessionReadMost))
	lines.Buffer(make([]byte, 0, 64<<10), sessionLineMost)
	for n := 1; lines.Scan(); n++ {
		if n == 1 {
			var head sessionHead
			if json.Unmarshal(lines.Bytes(), &head) != nil || head.Format != sessionFormat {
				return nil, fmt.Errorf("line 1: the format is %q, this version reads %s", head.Format, sessionFormat)
			}
			s.source = head.Source
		} else if err := s.take(lines.Bytes()); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	// Whoever was killed while recording leaves a file without an end.
	if err := lines.Err(); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	if len(s.moments) == 0 {
		return nil, errors.New("nothing was recorded")
	}
	s.clock = s.moments[0].At
	return s, nil
}

// take takes in a line.
func (s *Session) take(text []byte) error {
	var line sessionLine
	if err := json.Unmarshal(text, &line); err != nil {
		return err
	}
	if line.Subject != "" {
		s.answers[line.Subject] = line.Answers
		return nil
	}
	var m Moment
	if len(s.moments) > 0 {
		m = s.moments[len(s.moments)-1]
	}
	m.At = line.At
	for name, raw := range line.Parts {
		into := empty(name)
		if into == nil {
			continue // of a later version
		}
		if err := json.Unmarshal(raw, into); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		m.set(into)
	}
	s.moments = append(s.moments, m)
	return nil
}

// Name says what is played.
func (s *Session) Name() string { return s.source }

// sync sets the clock of the recording by the reader's.
func (s *Session) sync(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.syncedAt.IsZero() && !s.halted {
		s.clock = s.clock.Add(now.Sub(s.syncedAt) * time.Duration(s.speed))
	}
	s.syncedAt = now
	if end := s.moments[len(s.moments)-1].At; s.clock.After(end) {
		s.clock = end
	}
	for s.at+1 < len(s.moments) && !s.moments[s.at+1].At.After(s.clock) {
		s.at++
	}
}

// step goes to the moment so many after this one, or before.
func (s *Session) step(by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = max(0, min(s.at+by, len(s.moments)-1))
	s.clock = s.moments[s.at].At
}

// halt makes the clock stand still, or go on.
func (s *Session) halt(halted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.halted = halted
}

// hurry makes the clock twice as fast, or half.
func (s *Session) hurry(faster bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.speed /= 2; faster {
		s.speed = max(1, s.speed) * 4
	}
	s.speed = max(1, min(s.speed, speedMost))
}

// moment returns what was last known by the clock, with the time on it.
func (s *Session) moment() Moment {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.moments[s.at]
	if s.load != nil {
		if s.loadedAt != s.at {
			s.loaded, s.loadedAt = s.load(s.at), s.at
		}
		m = s.loaded
		m.At = s.moments[s.at].At
	}
	if s.clock.After(m.At) {
		m.At = s.clock
	}
	return m
}

// where says what is played, in a few words.
func (s *Session) where() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := fmt.Sprintf("%d of %d", s.at+1, len(s.moments))
	if s.speed > 1 {
		text += fmt.Sprintf(" x%d", s.speed)
	}
	return text
}

// Fill is never needed: a session has whole moments.
func (s *Session) Fill(context.Context, string, string, any) error { return nil }

// Explain returns what was said of a subject when it was recorded.
func (s *Session) Explain(_ context.Context, subject journal.Subject) ([]journal.Answer, error) {
	if s.ask != nil {
		return s.ask(subject)
	}
	if answers, ok := s.answers[subject.String()]; ok {
		return answers, nil
	}
	return nil, fmt.Errorf("nobody asked about %s while this was recorded", subject)
}
