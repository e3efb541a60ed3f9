package journal

import (
	"encoding/binary"
	"hash/maphash"

	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// hashedKept is how much memory a hasher keeps, in bytes.
const hashedKept = 64 << 10

// hasher hashes texts without their amounts. One goroutine at a time uses it.
type hasher struct {
	seed maphash.Seed
	text []byte // memory that is used again
}

// keyOf returns what distinguishes a statement from others about its subject, amounts aside.
func (h *hasher) keyOf(what string, details []string) uint64 {
	h.text = appendAmountless(h.text[:0], what)
	for _, d := range details {
		h.text = appendAmountless(h.text, d)
	}
	return h.sum()
}

// keyOfRefusal returns the same for a refusal. hash is that of why.
func (h *hasher) keyOfRefusal(form string, why *verdict.Verdict, hash uint64) uint64 {
	h.text = binary.LittleEndian.AppendUint64(appendAmountless(h.text[:0], form), hash)
	h.text = appendAmountless(h.text, why.Subject)
	for i := range why.Causes {
		h.text = appendVerdict(h.text, &why.Causes[i])
	}
	return h.sum()
}

// hashOf returns the hash of a verdict's reason and detail, amounts aside.
func (h *hasher) hashOf(v *verdict.Verdict) uint64 {
	h.text = appendAmountless(append(h.text[:0], v.Reason...), v.Detail)
	return h.sum()
}

// hashesOf returns hashOf each verdict.
func (h *hasher) hashesOf(all []verdict.Verdict) []uint64 {
	hashes := make([]uint64, len(all))
	for i := range all {
		hashes[i] = h.hashOf(&all[i])
	}
	return hashes
}

// sum returns the hash of the text, and gives up its memory if it is long.
func (h *hasher) sum() uint64 {
	sum := maphash.Bytes(h.seed, h.text)
	if cap(h.text) > hashedKept {
		h.text = nil
	}
	return sum
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
