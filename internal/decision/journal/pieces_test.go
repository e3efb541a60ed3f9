package journal

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestALongTextWithASmallChange puts a text of more lines than are searched one by one, and one that differs so
// little that the first is not read in as a dictionary.
func TestALongTextWithASmallChange(t *testing.T) {
	t.Parallel()
	var lines []string
	for i := range 2 * searchedMost {
		lines = append(lines, fmt.Sprintf("line %d of a long text", i))
	}
	first := []byte(strings.Join(lines, "\n"))
	second := []byte(strings.Join(slices.Insert(slices.Delete(lines, 300, 310), 100, "x"), "\n"))
	p := newPieces()
	p.begin()
	p.Put("nodes", first, nil)
	one := p.all[p.Put("nodes", second, nil)]
	if one.base == nil || one.hasDictionary || len(one.body) > 50 {
		t.Errorf("the text has a base: %v, a dictionary: %v, and takes %d bytes", one.base != nil, one.hasDictionary, len(one.body))
	}
	clear(p.texts) // what is remembered
	if text, err := p.textOf(one); err != nil || !bytes.Equal(text, second) {
		t.Errorf("it reads as %.100q, error %v", text, err)
	}
}

// TestEveryTextIsReadAsItWasPut puts texts of some names that change line by line, more often than texts are made from
// one another, and drops some.
func TestEveryTextIsReadAsItWasPut(t *testing.T) {
	t.Parallel()
	line := rapid.SampledFrom([]string{"a", "b", "c", "", "a long line of one and the same text"})
	rapid.Check(t, func(t *rapid.T) {
		p, texts, newest := newPieces(), map[int64][]byte{}, map[string][][]byte{}
		for i := range rapid.IntRange(1, 3*basesMax).Draw(t, "texts") {
			p.begin()
			name := rapid.SampledFrom([]string{"node/a", "node/b", "nodes"}).Draw(t, "name")
			lines := newest[name]
			if len(lines) == 0 || rapid.IntRange(0, 9).Draw(t, "anew") == 0 {
				lines = nil
				for _, l := range rapid.SliceOfN(line, 1, 12).Draw(t, "lines") {
					lines = append(lines, []byte(l))
				}
			}
			at := rapid.IntRange(0, len(lines)-1).Draw(t, "at")
			changed := append(append([][]byte(nil), lines[:at]...), fmt.Appendf(nil, "line %d", i))
			changed = append(changed, lines[min(len(lines), at+rapid.IntRange(0, 2).Draw(t, "goes")):]...)
			newest[name] = changed
			text := bytes.Join(changed, []byte{'\n'})
			var refs []int64
			if len(p.all) > 0 && rapid.Bool().Draw(t, "refers") {
				refs = []int64{rapid.SampledFrom(p.list()).Draw(t, "to").number}
			}
			texts[p.Put(name, text, refs)] = text
			if rapid.IntRange(0, 9).Draw(t, "drops") == 0 {
				p.drop(p.round)
			}
		}
		for _, one := range p.all {
			for _, needed := range append(slices.Clone(one.refs), one.base) {
				if needed != nil && p.all[needed.number] != needed {
					t.Fatalf("piece %d needs piece %d, which was dropped", one.number, needed.number)
				}
			}
		}
		fresh := newPacker() // as who reads a file
		for number, want := range texts {
			if p.all[number] == nil {
				continue
			}
			got, err := fresh.textOf(p.all[number])
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("piece %d: %q, %v, want %q", number, got, err, want)
			}
		}
	})
}

// TestAPieceWithoutADictionaryIsRead: files have had such ones.
func TestAPieceWithoutADictionaryIsRead(t *testing.T) {
	t.Parallel()
	k := newPacker()
	from, text := []byte("one\ntwo\nthree"), []byte("one\n2\nthree")
	base := &piece{number: 1, body: k.pack(from, nil)}
	got, err := k.textOf(&piece{number: 2, base: base, body: k.pack(k.difference(from, text), nil)})
	if err != nil || !bytes.Equal(got, text) {
		t.Errorf("%q, %v, want %q", got, err, text)
	}
}

// TestALongTextIsADictionary: deflate sees the last 32 kB of a dictionary, and the list of a large cluster's nodes is longer.
func TestALongTextIsADictionary(t *testing.T) {
	t.Parallel()
	p := newPieces()
	lines := make([]string, 20_000)
	for i := range lines {
		lines[i] = fmt.Sprint("line ", i)
	}
	for i := range 2 * basesMax {
		p.begin()
		lines[i*500] = fmt.Sprint("changed ", i)
		text := []byte(strings.Join(lines, "\n"))
		fresh := newPacker()
		if got, err := fresh.textOf(p.all[p.Put("nodes", text, nil)]); err != nil || !bytes.Equal(got, text) {
			t.Fatalf("version %d of %d bytes: %d bytes, %v", i, len(text), len(got), err)
		}
	}
}

// TestTextsAreMadeInFewSteps: of 50 versions of 100 lines, each with another line changed, those whose changes since a kept
// version are few are made from that one, and only every twentieth or so takes a step more.
func TestTextsAreMadeInFewSteps(t *testing.T) {
	t.Parallel()
	p := newPieces()
	lines := make([]string, 100)
	for i := range lines {
		lines[i] = fmt.Sprintf("line %2d as it was in the beginning", i)
	}
	for i := range 50 {
		p.begin()
		lines[2*i] = fmt.Sprintf("line %2d as it was changed, later on", 2*i)
		if depth := p.all[p.Put("node/a", []byte(strings.Join(lines, "\n")), nil)].depth(); depth > 2+i/15 {
			t.Fatalf("version %d is made in %d steps", i, depth)
		}
	}
}

// TestALongTextDoesNotKeepItsMemory: what a decision needed once is not held for all that follow.
func TestALongTextDoesNotKeepItsMemory(t *testing.T) {
	t.Parallel()
	p := newPieces()
	p.begin()
	long := bytes.Repeat([]byte("a line\n"), reusedMax/24)
	p.Put("node/a", long, nil)
	p.Put("node/a", append(long, "another"...), nil)
	if cap(p.lines) == 0 {
		t.Fatal("nothing is used again")
	}
	p.begin()
	if n := cap(p.lines); n > 0 {
		t.Errorf("the places of %d lines are kept", n)
	}
}
