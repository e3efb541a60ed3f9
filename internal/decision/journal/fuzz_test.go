package journal

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
)

// FuzzRead reads what may be a journal. Whatever was read can be asked about, and a line more
// changes nothing of what stood before it.
func FuzzRead(f *testing.F) {
	j, _ := keep(f, Options{}, decide(f, 0, "pod w cpu=1\n"), decide(f, 1, "pod w cpu=1\n"), decide(f, 2, "pod x cpu=9\n"))
	whole := fileOf(f, j, ID{})
	alone, err := decide(f, 0, "pod w cpu=1\n").Encode()
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		string(whole), string(alone), "", "\n\n", `{"format":"dovetail-journal/1"}`,
		`{"format":"dovetail-journal/1","decision":{"id":1,"again":9223372036854775807}}` + "\n" + `{"format":"dovetail-journal/1","same":{"id":1,"again":9223372036854775807}}`,
		`{"format":"dovetail-journal/1","refusals":[{"name":"a","times":-1},{"name":"a","times":5}]}`,
		`{"format":"dovetail-journal/1","decision":{"id":1},"body":"AAAA"}`,
		`{"format":"dovetail-journal/2","decision":{"id":"1.6f3k9a"}}` + "\n" + `{"format":"dovetail-journal/2","same":{"id":"1.6f3k9a","again":1,"also":["2.6f3k9a",3]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := ReadFrom(bytes.NewReader(text), "j")
		if err != nil {
			if !strings.Contains(err.Error(), "j:") {
				t.Errorf("the error does not say where: %v", err)
			}
			return
		}
		askedAbout(t, file)
		if len(file.Notes) > 0 || len(bytes.TrimSpace(text)) == 0 {
			return
		}
		again, err := ReadFrom(strings.NewReader(string(text)+"\nnonsense\n"), "j")
		if err != nil || len(again.Notes) != 1 || !reflect.DeepEqual(heads(again), heads(file)) || !reflect.DeepEqual(again.oldRefusals, file.oldRefusals) {
			t.Errorf("with a bad line at its end: %v, %+v", err, again)
		}
	})
}

func heads(file *File) (out []Head) {
	for i := range file.Decisions {
		out = append(out, file.Decisions[i].Head)
	}
	return out
}

// askedAbout asks everything that can be asked of a journal.
func askedAbout(t *testing.T, file *File) {
	t.Helper()
	for i := range file.Decisions {
		e := &file.Decisions[i]
		if e.Again < 0 {
			t.Errorf("decision %s was come to %d times more", e.ID, e.Again)
		}
		if found, err := file.Find(e.ID); err != nil || !found.names(e.ID) {
			t.Errorf("decision %s is not found: %v", e.ID, err)
		}
		d, err := e.Decision()
		if err != nil {
			continue
		}
		head := headOf(d, e.ID, e.Written)
		if _, err := json.Marshal(head); err != nil && !math.IsInf(head.PriceBefore, 0) && !math.IsNaN(head.PriceAfter) {
			t.Errorf("its head cannot be written: %v", err)
		}
	}
	for _, text := range []string{"w", "default/w", "x", "node/n1", "nodeclaim/general-1"} {
		s, err := ParseSubject(text)
		if err != nil {
			continue
		}
		answers, err := file.Explain(s)
		if err != nil {
			continue
		}
		for _, a := range answers {
			for _, say := range a.Says {
				if say.What == "" {
					t.Errorf("an answer about %s says nothing: %+v", a.Name, say)
				}
			}
		}
	}
}
