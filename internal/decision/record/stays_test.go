package record

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// TestStaysHaveTheSumOfOlderVersions: decisions that older versions kept are compared with those made again.
func TestStaysHaveTheSumOfOlderVersions(t *testing.T) {
	t.Parallel()
	got := staysOf([]verdict.Verdict{
		{Reason: verdict.NodeBlocked, Subject: "node-a", Detail: `do-not-disrupt of "web" <é>`},
		{Reason: verdict.NodeBlocked, Causes: []verdict.Verdict{{Reason: verdict.NodeBlocked, Subject: "pdb"}, {}}},
		{Reason: verdict.NodeBlocked, Causes: []verdict.Verdict{}},
		{},
	})
	if want := (Stays{4, "cb8a6c66ce1fcd0e57163d18518a3319"}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestVerdictsAreWrittenAsByReflection(t *testing.T) {
	t.Parallel()
	text := rapid.SampledFrom([]string{"", "n-1", "quo\"te", "é", "a b"})
	var draw func(t *rapid.T, depth int) verdict.Verdict
	draw = func(t *rapid.T, depth int) verdict.Verdict {
		v := verdict.Verdict{Reason: verdict.Reason(text.Draw(t, "reason")), Subject: text.Draw(t, "subject"), Detail: text.Draw(t, "detail")}
		if depth > 0 && rapid.Bool().Draw(t, "has causes") {
			v.Causes = []verdict.Verdict{}
			for range rapid.IntRange(0, 3).Draw(t, "causes") {
				v.Causes = append(v.Causes, draw(t, depth-1))
			}
		}
		return v
	}
	rapid.Check(t, func(t *rapid.T) {
		v := draw(t, 2)
		by, want := newEncoder(), newEncoder()
		by.verdict(&v)
		if want.write(reflect.ValueOf(v)); string(by.text) != string(want.text) {
			t.Fatalf("%s, by reflection %s", by.text, want.text)
		}
	})
}

// TestTheSumIsThatOfAllReasons: they are summed some at a time.
func TestTheSumIsThatOfAllReasons(t *testing.T) {
	t.Parallel()
	list := make([]verdict.Verdict, 3*summedAtOnce/40)
	for i := range list {
		list[i] = verdict.Of(verdict.NodeBlocked, "node", "reason %d", i)
	}
	want := staysOf(list)
	for _, at := range []int{0, len(list) / 2, len(list) - 1} {
		list[at].Detail += "!"
		if got := staysOf(list); got == want || got.Count != want.Count {
			t.Errorf("reason %d is another, and the sum is %v, was %v", at, got, want)
		}
		list[at].Detail = list[at].Detail[:len(list[at].Detail)-1]
	}
}
