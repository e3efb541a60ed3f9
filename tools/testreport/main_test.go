package main

import (
	"strings"
	"testing"
	"time"
)

func TestReport(t *testing.T) {
	t.Parallel()
	const events = `# a line that go prints by itself
{"Action":"start","Package":"github.com/dovetail-sh/dovetail/a"}
{"Action":"run","Package":"github.com/dovetail-sh/dovetail/a","Test":"TestGood"}
{"Action":"output","Package":"github.com/dovetail-sh/dovetail/a","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"output","Package":"github.com/dovetail-sh/dovetail/a","Test":"TestGood","Output":"said by a test that passes\n"}
{"Action":"pass","Package":"github.com/dovetail-sh/dovetail/a","Test":"TestGood","Elapsed":1.5}
{"Action":"output","Package":"github.com/dovetail-sh/dovetail/a","Test":"TestLater","Output":"    a_test.go:7: not today\n"}
{"Action":"output","Package":"github.com/dovetail-sh/dovetail/a","Test":"TestLater","Output":"--- SKIP: TestLater (0.00s)\n"}
{"Action":"skip","Package":"github.com/dovetail-sh/dovetail/a","Test":"TestLater","Elapsed":0}
{"Action":"output","Package":"github.com/dovetail-sh/dovetail/a","Output":"PASS\n"}
{"Action":"output","Package":"github.com/dovetail-sh/dovetail/a","Output":"ok  \tgithub.com/dovetail-sh/dovetail/a\t1.6s\n"}
{"Action":"pass","Package":"github.com/dovetail-sh/dovetail/a","Elapsed":1.6}
`
	const failing = `{"Action":"start","Package":"github.com/dovetail-sh/dovetail/b"}
{"Action":"run","Package":"github.com/dovetail-sh/dovetail/b","Test":"TestBad/one"}
{"Action":"output","Package":"github.com/dovetail-sh/dovetail/b","Test":"TestBad/one","Output":"    b_test.go:3: got 2, want 3\n"}
{"Action":"fail","Package":"github.com/dovetail-sh/dovetail/b","Test":"TestBad/one","Elapsed":0.1}
{"Action":"fail","Package":"github.com/dovetail-sh/dovetail/b","Test":"TestBad","Elapsed":0.2}
{"Action":"output","Package":"github.com/dovetail-sh/dovetail/b","Test":"TestHangs","Output":"panic: test timed out\n"}
{"Action":"output","Package":"github.com/dovetail-sh/dovetail/b","Output":"FAIL\tgithub.com/dovetail-sh/dovetail/b\t0.3s\n"}
{"Action":"fail","Package":"github.com/dovetail-sh/dovetail/b","Elapsed":0.3}
{"ImportPath":"github.com/dovetail-sh/dovetail/c","Action":"build-output","Output":"c.go:1: syntax error\n"}
{"Action":"output","Package":"github.com/dovetail-sh/dovetail/c","Output":"FAIL\tgithub.com/dovetail-sh/dovetail/c [build failed]\n"}
{"Action":"fail","Package":"github.com/dovetail-sh/dovetail/c","Elapsed":0}
`
	for name, c := range map[string]struct {
		events string
		passed bool
		want   string
	}{
		"what passes is short": {events, true, `# a line that go prints by itself
the slowest of 2 tests:
     1.50s a TestGood
     0.00s a TestLater
skipped 1: not today
ok  	github.com/dovetail-sh/dovetail/a	1.6s
`},
		"what fails is shown in full, when it fails, and named at the end": {failing, false, `FAILED b TestBad/one
    b_test.go:3: got 2, want 3
FAILED b TestBad
FAILED b
panic: test timed out
c.go:1: syntax error
FAILED c
the slowest of 1 tests:
     0.10s b TestBad/one
FAILED b TestBad/one
FAILED b TestBad
FAILED b
FAILED c
FAIL	github.com/dovetail-sh/dovetail/b	0.3s
FAIL	github.com/dovetail-sh/dovetail/c [build failed]
`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			passed, err := run(strings.NewReader(c.events), &out, nil)
			if err != nil || passed != c.passed || out.String() != c.want {
				t.Errorf("passed %v, error %v, printed\n%s\nwant passed %v,\n%s", passed, err, &out, c.passed, c.want)
			}
		})
	}
}

func TestProgressNamesWhatRuns(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	r := &report{to: &out, begun: time.Now(), running: map[string]bool{module + "b": true, module + "a": true}, closing: make([]string, 3)}
	r.progress()
	if want := "  0s: 3 packages done, 0 failures; running: a b\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}
