// Command layers measures how well the product's packages can be read: whether the files
// of a package stand in layers, how many methods types have, and how many parameters
// functions take.
//
// A file refers to another when it mentions a package-level name, a field or a method that
// the other declares; however many it mentions, that is one reference. The tool looks for
// the order of the files in which the fewest references run upwards, from a file to one
// above it: a package whose files can be read from top to bottom has none, and two files
// that refer to each other have one. Limits are at the top of this file.
//
// Usage: layers [-v] [-check] ROOT [PACKAGE...]
//
// It prints a table, a line a package; with -v also the order of the files, and the
// references against it, the heaviest first; with -check only what breaks a limit, and ends
// with 1. PACKAGE is a directory below ROOT; the table and -v then show that one alone.
//
// Read load.go, references.go and order.go in this order; sizes.go counts.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// Limits.
const (
	// packMax and othersMax are how many of a hundred references between files may run
	// against the layers: in core/pack and below it, and elsewhere.
	packMax, othersMax = 10, 15
	// methodsMax is for a type, embedded methods counted; parametersMax for a function,
	// the receiver not counted.
	methodsMax, parametersMax = 45, 5
)

const pack = "internal/core/pack"

func main() {
	verbose := flag.Bool("v", false, "print the order of the files and the references against it")
	check := flag.Bool("check", false, "print only what breaks a limit, and fail if anything does")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: layers [-v] [-check] ROOT [PACKAGE...]")
		os.Exit(2)
	}
	root := flag.Arg(0)
	packages, err := load(root)
	if err != nil {
		fail(err)
	}
	var layered []layering
	var all []measure
	for _, p := range packages {
		l := layer(p)
		layered = append(layered, l)
		all = append(all, l.measure())
		all = append(all, methods(p)...)
		all = append(all, parameters(p)...)
	}
	if !*check {
		table(os.Stdout, layered, flag.Args()[1:], *verbose)
		return
	}
	if found := exceeded(all); len(found) > 0 {
		fail(fmt.Errorf("limits are broken (make layers V=1 shows where):\n  %s", strings.Join(found, "\n  ")))
	}
}

// measure is one thing that has a limit: how much of a kind something named has.
type measure struct {
	kind, name   string
	value, limit int
}

// exceeded returns what is over its limit.
func exceeded(all []measure) (found []string) {
	for _, m := range all {
		if m.value > m.limit {
			found = append(found, fmt.Sprintf("%s of %s: %d, at most %d", m.kind, m.name, m.value, m.limit))
		}
	}
	slices.Sort(found)
	return found
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "layers:", err)
	os.Exit(1)
}

// layering is a package with its files in the best order that was found.
type layering struct {
	dir string
	graph
	order []int
	all   int      // references between files
	wrong [][2]int // those against the order
}

func layer(p *checked) layering {
	l := layering{dir: filepath.ToSlash(p.dir), graph: references(p)}
	l.order = layers(l.weights())
	l.all, l.wrong = l.total(), l.upwards(l.order)
	return l
}

func (l *layering) limit() int {
	if l.dir == pack || strings.HasPrefix(l.dir, pack+"/") {
		return packMax
	}
	return othersMax
}

// percent returns how many of a hundred references run against the layers.
func (l *layering) percent() float64 { return 100 * float64(len(l.wrong)) / float64(max(1, l.all)) }

func (l *layering) measure() measure {
	return measure{kind: "layers", name: l.dir, value: int(math.Ceil(l.percent())), limit: l.limit()}
}

// table writes a line for each package of more than one file, the worst first.
func table(w io.Writer, all []layering, chosen []string, verbose bool) {
	slices.SortStableFunc(all, func(a, b layering) int { return cmp.Compare(b.percent(), a.percent()) })
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "PACKAGE\tFILES\tREFERENCES\tAGAINST\t%\tLIMIT\t\n")
	for i := range all {
		l := &all[i]
		if len(l.files) < 2 || (len(chosen) > 0 && !slices.Contains(chosen, l.dir)) {
			continue
		}
		over := ""
		if m := l.measure(); m.value > m.limit {
			over = "over"
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%.1f\t%d\t%s\n", l.dir, len(l.files), l.all, len(l.wrong), l.percent(), l.limit(), over)
		if verbose {
			t.Flush() //nolint:errcheck // standard output
			l.explain(w)
		}
	}
	t.Flush() //nolint:errcheck // standard output
}

// explain writes the order of the files, from the top, and what runs against it.
func (l *layering) explain(w io.Writer) {
	fmt.Fprintln(w, "  from the top:")
	for _, i := range l.order {
		fmt.Fprintln(w, "       ", l.files[i])
	}
	fmt.Fprintln(w, "  against it, with the number of names used:")
	for _, p := range l.wrong {
		names := l.uses[p[0]][p[1]]
		fmt.Fprintf(w, "  %5d %s uses of %s: %s\n", len(names), l.files[p[0]], l.files[p[1]], strings.Join(names, " "))
	}
	fmt.Fprintln(w)
}
