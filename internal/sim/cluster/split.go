package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// members calls do with each member of an object in JSON, in their order.
func members(object []byte, do func(name string, value json.RawMessage) error) error {
	s := splitter{rest: object}
	return s.each('{', '}', func() error {
		quoted := s.value()
		s.expect(':')
		value := s.value()
		if s.err != nil {
			return s.err
		}
		name := quoted[1 : len(quoted)-1]
		if bytes.IndexByte(name, '\\') < 0 {
			return do(string(name), value)
		}
		var read string
		if err := json.Unmarshal(quoted, &read); err != nil {
			return err
		}
		return do(read, value)
	})
}

// elements calls do with each element of a list in JSON.
func elements(list []byte, do func(value json.RawMessage) error) error {
	s := splitter{rest: list}
	return s.each('[', ']', func() error {
		value := s.value()
		if s.err != nil {
			return s.err
		}
		return do(value)
	})
}

// splitter takes JSON apart, one level of it: whoever reads the parts sees whether they are right.
type splitter struct {
	rest []byte
	err  error
}

// each calls do for each part between two brackets, to take it.
func (s *splitter) each(opens, closes byte, do func() error) error {
	s.expect(opens)
	if s.next() == closes {
		return s.err
	}
	for s.err == nil {
		if err := do(); err != nil {
			return err
		}
		if s.next() == closes {
			return nil
		}
		s.expect(',')
	}
	return s.err
}

// next returns what comes, white space apart; 0: nothing.
func (s *splitter) next() byte {
	s.rest = bytes.TrimLeft(s.rest, " \t\r\n")
	if len(s.rest) == 0 {
		return 0
	}
	return s.rest[0]
}

func (s *splitter) expect(c byte) {
	if s.next() != c {
		if s.err == nil {
			s.err = fmt.Errorf("no %q where one is due in JSON: %.20s", c, s.rest)
		}
		return
	}
	s.rest = s.rest[1:]
}

// value takes one value of any kind.
func (s *splitter) value() json.RawMessage {
	s.next()
	depth, end := 0, 0
scan:
	for ; end < len(s.rest); end++ {
		switch s.rest[end] {
		case '"':
			end += quoted(s.rest[end:]) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				break scan
			}
		case ',', ':':
			if depth == 0 {
				break scan
			}
		}
	}
	end = min(end, len(s.rest))
	value := bytes.TrimRight(s.rest[:end], " \t\r\n")
	if s.rest = s.rest[end:]; len(value) == 0 && s.err == nil {
		s.err = fmt.Errorf("no value where one is due in JSON: %.20s", s.rest)
	}
	return value
}

// quoted returns how long the string is that text begins with.
func quoted(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}
