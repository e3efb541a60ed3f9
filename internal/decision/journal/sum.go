package journal

import (
	"encoding/binary"
	"hash/maphash"

	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// summer sums texts without their amounts. Each goroutine has its own.
type summer struct {
	seed maphash.Seed
	text []byte // memory that is used again
}

// keyOf returns what distinguishes a statement from others about its subject, amounts aside.
func (s *summer) keyOf(what string, details []string) uint64 {
	s.text = appendAmountless(s.text[:0], what)
	for _, d := range details {
		s.text = appendAmountless(s.text, d)
	}
	return maphash.Bytes(s.seed, s.text)
}

// keyOfRefusal returns the same for a refusal. sum is that of why.
func (s *summer) keyOfRefusal(form string, why *verdict.Verdict, sum uint64) uint64 {
	s.text = binary.LittleEndian.AppendUint64(appendAmountless(s.text[:0], form), sum)
	s.text = appendAmountless(s.text, why.Subject)
	for i := range why.Causes {
		s.text = appendVerdict(s.text, &why.Causes[i])
	}
	return maphash.Bytes(s.seed, s.text)
}

// sumOf returns the sum of a verdict's reason and detail, amounts aside.
func (s *summer) sumOf(v *verdict.Verdict) uint64 {
	s.text = appendAmountless(append(s.text[:0], v.Reason...), v.Detail)
	return maphash.Bytes(s.seed, s.text)
}

func appendVerdict(text []byte, v *verdict.Verdict) []byte {
	text = appendAmountless(appendAmountless(append(text, v.Reason...), v.Subject), v.Detail)
	for i := range v.Causes {
		text = appendVerdict(text, &v.Causes[i])
	}
	return text
}

// appendAmountless appends a text without its digits, and a mark of its end.
func appendAmountless(to []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c-'0' > 9 { // below the zero it wraps around
			to = append(to, c)
		}
	}
	return append(to, 0)
}
