// Command testreport reads what "go test -json" prints, possibly several runs one after
// another, and writes what a person wants of it: a line of progress every 15 seconds, the
// output of each failed test as soon as it has failed, and at the end the ten slowest tests,
// why tests were skipped, and go test's own closing lines. It exits with status 1 if anything
// failed.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	module        = "github.com/dovetail-sh/dovetail/"
	progressEvery = 15 * time.Second
	slowestShown  = 10
	lineMost      = 64 << 20 // bytes; a test can print a whole cluster in one line
)

func main() {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	passed, err := run(os.Stdin, os.Stdout, tick.C)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
	}
	if err != nil || !passed {
		os.Exit(1)
	}
}

// event is one line of "go test -json"; see "go doc test2json".
type event struct {
	Action     string
	Package    string
	ImportPath string // instead of Package, for the output of a build
	Test       string
	Elapsed    float64 // seconds
	Output     string
}

// test names a test, or with an empty name a package as a whole.
type test struct{ pkg, name string }

func (t test) String() string {
	return strings.TrimSpace(strings.TrimPrefix(t.pkg, module) + " " + t.name)
}

// report is what has been read so far.
type report struct {
	to      io.Writer
	begun   time.Time
	running map[string]bool   // packages
	output  map[test][]string // of the tests and packages that have not ended
	seconds map[test]float64  // of tests without subtests
	parents map[test]bool     // tests with subtests, whose own time means little when those are parallel
	skipped map[string]int    // reason -> number of tests
	failed  []test
	closing []string // one line of each package that has tests
}

// run reads events until there are no more. It reports whether everything passed.
func run(from io.Reader, to io.Writer, tick <-chan time.Time) (passed bool, err error) {
	r := &report{
		to: to, begun: time.Now(), running: map[string]bool{}, output: map[test][]string{},
		seconds: map[test]float64{}, parents: map[test]bool{}, skipped: map[string]int{},
	}
	lines, read := make(chan []byte), make(chan error, 1)
	go func() {
		defer close(lines)
		in := bufio.NewScanner(from)
		in.Buffer(nil, lineMost)
		for in.Scan() {
			lines <- slices.Clone(in.Bytes())
		}
		read <- in.Err()
	}()
	for {
		select {
		case line, more := <-lines:
			if !more {
				r.summary()
				return len(r.failed) == 0, <-read
			}
			r.add(line)
		case <-tick:
			r.progress()
		}
	}
}

// add takes in one line. What is not an event is printed as it is.
func (r *report) add(line []byte) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil || e.Action == "" {
		fmt.Fprintf(r.to, "%s\n", line)
		return
	}
	t := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.to, e.Output)
	case "start":
		r.running[e.Package] = true
	case "run":
		if i := strings.LastIndex(t.name, "/"); i >= 0 {
			r.parents[test{t.pkg, t.name[:i]}] = true
		}
	case "output":
		r.print(t, e.Output)
	case "pass", "skip", "fail":
		r.end(t, &e)
	}
}

// print keeps what a test or package has printed, until it is known whether it is needed.
func (r *report) print(t test, text string) {
	switch {
	case t.name == "" && (strings.HasPrefix(text, "ok  \t") || strings.HasPrefix(text, "FAIL\t")):
		r.closing = append(r.closing, text)
	case t.name == "" && (text == "PASS\n" || text == "FAIL\n" || strings.HasPrefix(text, "?   \t")):
	case t.name != "" && strings.HasPrefix(text, "=== "):
	default:
		r.output[t] = append(r.output[t], text)
	}
}

// end takes in the result of a test or package.
func (r *report) end(t test, e *event) {
	text := r.output[t]
	delete(r.output, t)
	switch {
	case t.name == "":
		delete(r.running, t.pkg)
	case !r.parents[t]:
		r.seconds[t] = e.Elapsed
	}
	switch e.Action {
	case "skip":
		if t.name != "" {
			r.skipped[reason(text)]++
		}
	case "fail":
		r.failed = append(r.failed, t)
		fmt.Fprintf(r.to, "FAILED %s\n", t)
		for _, left := range slices.SortedFunc(maps.Keys(r.output), func(a, b test) int { return cmp.Compare(a.name, b.name) }) {
			if t.name == "" && left.pkg == t.pkg { // a panic, or the time was over: it did not end
				fmt.Fprintf(r.to, "%s", strings.Join(r.output[left], ""))
				delete(r.output, left)
			}
		}
		fmt.Fprintf(r.to, "%s", strings.Join(text, ""))
	}
}

// logged is a line that a test logs: "    file_test.go:12: why".
var logged = regexp.MustCompile(`^\s+\S+\.go:\d+: (.*)`)

// reason returns why a test was skipped, which is the last that it logged.
func reason(output []string) string {
	for _, line := range slices.Backward(output) {
		if m := logged.FindStringSubmatch(line); m != nil {
			return m[1]
		}
	}
	return "it does not say why"
}

// progress prints how far the run is.
func (r *report) progress() {
	names := slices.Sorted(maps.Keys(r.running))
	for i := range names {
		names[i] = strings.TrimPrefix(names[i], module)
	}
	fmt.Fprintf(r.to, "  %s: %d packages done, %d failures; running: %s\n",
		time.Since(r.begun).Round(time.Second), len(r.closing), len(r.failed), strings.Join(names, " "))
}

// summary prints what is known when all has been read.
func (r *report) summary() {
	slow := slices.SortedFunc(maps.Keys(r.seconds), func(a, b test) int {
		return cmp.Or(cmp.Compare(r.seconds[b], r.seconds[a]), cmp.Compare(a.String(), b.String()))
	})
	fmt.Fprintf(r.to, "the slowest of %d tests:\n", len(slow))
	for _, t := range slow[:min(slowestShown, len(slow))] {
		fmt.Fprintf(r.to, "  %7.2fs %s\n", r.seconds[t], t)
	}
	for _, why := range slices.Sorted(maps.Keys(r.skipped)) {
		fmt.Fprintf(r.to, "skipped %d: %s\n", r.skipped[why], why)
	}
	for _, t := range r.failed {
		fmt.Fprintf(r.to, "FAILED %s\n", t)
	}
	for _, line := range r.closing {
		fmt.Fprint(r.to, line)
	}
}
