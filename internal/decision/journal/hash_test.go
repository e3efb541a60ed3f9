package journal

import (
	"hash/maphash"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// TestALongReasonDoesNotKeepItsMemory: what one pod was refused for is not held for all that follow.
func TestALongReasonDoesNotKeepItsMemory(t *testing.T) {
	t.Parallel()
	h := hasher{seed: maphash.MakeSeed()}
	long := verdict.Of(verdict.Unconsolidatable, "n1", "%s", strings.Repeat("long", hashedKept))
	h.hashOf(&long)
	if n := cap(h.text); n > hashedKept {
		t.Errorf("%d bytes are kept, want %d at most", n, hashedKept)
	}
}

// TestHashesOfReasons: amounts make no difference, and everything else does.
func TestHashesOfReasons(t *testing.T) {
	t.Parallel()
	h := hasher{seed: maphash.MakeSeed()}
	key := func(form, subject, detail string, causes ...verdict.Verdict) uint64 {
		v := verdict.Of(verdict.Unconsolidatable, subject, "%s", detail)
		v.Causes = causes
		return h.keyOfRefusal(form, &v, h.hashOf(&v))
	}
	cause := verdict.Of(verdict.ConsolidateAfterNotElapsed, "p", "for 3 s")
	base := key("stays (%s)", "", "it costs 0.21 an hour", cause)
	if got := key("stays (%s)", "", "it costs 17.5 an hour", verdict.Of(verdict.ConsolidateAfterNotElapsed, "p", "for 88 s")); got != base {
		t.Error("other amounts have another key")
	}
	for what, got := range map[string]uint64{
		"form":    key("refused (%s)", "", "it costs 0.21 an hour", cause),
		"subject": key("stays (%s)", "n", "it costs 0.21 an hour", cause),
		"detail":  key("stays (%s)", "", "it costs 0.21 a day", cause),
		"cause":   key("stays (%s)", "", "it costs 0.21 an hour", verdict.Of(verdict.ConsolidateAfterNotElapsed, "q", "for 3 s")),
		"causes":  key("stays (%s)", "", "it costs 0.21 an hour"),
	} {
		if got == base {
			t.Errorf("another %s has the same key", what)
		}
	}
}
