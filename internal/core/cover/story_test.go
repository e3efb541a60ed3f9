package cover

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestStories plays the files of testdata. Each story is a problem, a question, and the
// whole answer; an answer that breaks a rule of the problem fails in any case.
//
//	solve [fee=PRICE] [passes=N] [columns=N] [improve=N] [prove]   which bins; without passes: the
//	                                       default effort for so many items
//	bound [fee=PRICE]                      what every packing costs at least
//	bin NAME has=N,N… price=PRICE [left=N]   a bin, what it holds of each dimension, how many there are
//	class NAME size=N,N… count=N [per-bin=N] [in=BIN,…] [apart=CLASS,…]   a class of items, what one item
//	                                       takes, the bins where they may be, the classes that it conflicts with
//
// The answer: how many bins are filled with what, in the order in which they are opened, the
// items without a bin, the price and its lower bound, and what an item of each class is worth.
func TestStories(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s := story{t: t, d: d, p: &Problem{}, words: map[string]string{}}
			for line := range strings.Lines(d.Input) {
				s.thing(strings.Fields(line))
			}
			s.resolve()
			s.words = map[string]string{}
			for _, arg := range d.CmdArgs {
				s.words[arg.Key] = strings.Join(arg.Vals, ",")
			}
			s.p.BinFee = s.price("fee")
			if d.Cmd == "bound" {
				bound, prices := Bound(s.p)
				return fmt.Sprintf("bound %.3f\n%s", bound, s.worth(prices))
			}
			solution := Solve(s.p, s.effort())
			check(t, s.p, solution)
			return s.answer(&solution)
		})
	})
}

// story reads one problem; words are those of the line that is read.
type story struct {
	t             *testing.T
	d             *datadriven.TestData
	p             *Problem
	bins, classes []string            // their names
	in, apart     map[string][]string // of classes
	words         map[string]string
}

// thing reads a bin or a class.
func (s *story) thing(fields []string) {
	if len(fields) < 2 {
		s.d.Fatalf(s.t, "%q: want a kind and a name", fields)
	}
	known := map[string]string{"bin": " has price left ", "class": " size count per-bin in apart "}[fields[0]]
	s.words = map[string]string{}
	for _, field := range fields[2:] {
		word, value, _ := strings.Cut(field, "=")
		if !strings.Contains(known, " "+word+" ") {
			s.d.Fatalf(s.t, "%q: no such word: %s", fields, word)
		}
		s.words[word] = value
	}
	name := fields[1]
	switch fields[0] {
	case "bin":
		s.bins = append(s.bins, name)
		s.p.Bins = append(s.p.Bins, Bin{Capacity: s.vector("has"), Price: s.price("price"), Left: s.number("left")})
	case "class":
		if s.in == nil {
			s.in, s.apart = map[string][]string{}, map[string][]string{}
		}
		s.classes = append(s.classes, name)
		s.in[name], s.apart[name] = s.list("in"), s.list("apart")
		s.p.Classes = append(s.p.Classes, Class{Size: s.vector("size"), Count: s.number("count"), PerBin: s.number("per-bin")})
	default:
		s.d.Fatalf(s.t, "no such thing: %s", fields[0])
	}
}

// resolve turns the names of bins and classes into their indexes.
func (s *story) resolve() {
	for i, name := range s.classes {
		c := &s.p.Classes[i]
		c.Bins = newBitset(len(s.bins))
		for b, bin := range s.bins {
			if in := s.in[name]; len(in) == 0 || slices.Contains(in, bin) {
				bitset(c.Bins).set(b)
			}
		}
		for _, other := range s.apart[name] {
			c.Conflicts = append(c.Conflicts, int32(slices.Index(s.classes, other)))
		}
	}
}

func (s *story) list(word string) []string {
	if s.words[word] == "" {
		return nil
	}
	return strings.Split(s.words[word], ",")
}

func (s *story) number(word string) int {
	n, err := strconv.Atoi(s.words[word])
	if err != nil && s.words[word] != "" {
		s.d.Fatalf(s.t, "%s: %v", word, err)
	}
	return n
}

func (s *story) price(word string) float64 {
	price, err := strconv.ParseFloat(s.words[word], 64)
	if err != nil && s.words[word] != "" {
		s.d.Fatalf(s.t, "%s: %v", word, err)
	}
	return price
}

func (s *story) vector(word string) (v []int64) {
	for _, text := range s.list(word) {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			s.d.Fatalf(s.t, "%s: %v", word, err)
		}
		v = append(v, n)
	}
	if s.p.Dims = max(s.p.Dims, len(v)); len(v) < s.p.Dims {
		s.d.Fatalf(s.t, "%s: want %d dimensions", word, s.p.Dims)
	}
	return v
}

func (s *story) effort() Effort {
	_, prove := s.words["prove"]
	if n := s.number("passes"); n > 0 {
		return Effort{Passes: n, Columns: s.number("columns"), Improve: s.number("improve"), Prove: prove}
	}
	items := 0
	for i := range s.p.Classes {
		items += s.p.Classes[i].Count
	}
	e := Default(items)
	e.Prove = prove
	return e
}

func (s *story) answer(solution *Solution) string {
	var b strings.Builder
	for _, pattern := range solution.Patterns {
		fmt.Fprintf(&b, "%d %s: %s\n", pattern.Times, s.bins[pattern.Bin], s.items(pattern.Items))
	}
	if len(solution.Unplaced) > 0 {
		fmt.Fprintf(&b, "unplaced: %s\n", s.items(solution.Unplaced))
	}
	fmt.Fprintf(&b, "price %.3f, bound %.3f\n%s", solution.Price, solution.Bound, s.worth(solution.ClassPrices))
	return b.String()
}

func (s *story) items(items []Item) string {
	texts := make([]string, len(items))
	for i, it := range items {
		texts[i] = fmt.Sprintf("%d %s", it.N, s.classes[it.Class])
	}
	return strings.Join(texts, ", ")
}

func (s *story) worth(prices []float64) string {
	texts := make([]string, len(prices))
	for i, price := range prices {
		texts[i] = fmt.Sprintf("%s %.3f", s.classes[i], price)
	}
	return "worth: " + strings.Join(texts, ", ") + "\n"
}
