package simulate

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// writeProgram writes the programs to the file that CONSOLIDATE_PROGRAM names, if it does: that of
// anybody, and beside it, as going-*.lp, that of who evicts no pods but those of nodes that go.
func (f *fleet) writeProgram(t tester, price float64) {
	t.Helper()
	file := os.Getenv("CONSOLIDATE_PROGRAM")
	if file == "" {
		return
	}
	for name, anybody := range map[string]bool{file: true, filepath.Join(filepath.Dir(file), "going-"+filepath.Base(file)): false} {
		if err := os.WriteFile(name, []byte(f.program(price, anybody)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// program returns the integer program, in the LP format that solvers read, for the fewest
// evictions by which anybody comes to a price, or who evicts no pods but those of nodes that go.
// Its objective is how many of the pods that could be evicted are not, below zero. Nodes are
// whole here, and so are pods; nothing is known of rules between pods. keep says that a node is
// kept, launch how many nodes of a type are launched, stay how many pods of a size remain where
// they are, come how many a kept or a launched one gets.
func (f *fleet) program(price float64, anybody bool) string {
	var sizes []vector
	for _, size := range f.sizes {
		if !slices.Contains(sizes, size) {
			sizes = append(sizes, size)
		}
	}
	var rows, counts, choices []string
	targets := make([]string, len(sizes)) // places of the pods of a size
	total, unmoved, spent, pods := make([]int, len(sizes)), "", "", 0
	place := func(at string, room vector, stay []string, atMost string) {
		for d := range room {
			row := ""
			for c, size := range sizes {
				row += fmt.Sprintf(" + %g come%s_%d", size[d], at, c)
				if stay != nil && stay[c] != "" {
					row += fmt.Sprintf(" + %g %s", size[d], stay[c])
				}
			}
			rows = append(rows, row+fmt.Sprintf(atMost, room[d]))
		}
		for c := range sizes {
			name := fmt.Sprintf("come%s_%d", at, c)
			counts, targets[c] = append(counts, name), targets[c]+" + "+name
		}
	}
	for h := range f.owned {
		m := &f.owned[h]
		at, left, count := fmt.Sprintf("H%d", h), m.room, make([]int, len(sizes))
		for _, class := range m.pods {
			left = vector{left[0] - f.sizes[class][0], left[1] - f.sizes[class][1]}
			count[slices.Index(sizes, f.sizes[class])]++
		}
		keep, kept := "keep"+at, " - %g keep"+at+" <= 0"
		if m.stays {
			price -= m.price
			keep, kept = "", " <= %g"
		} else {
			spent += fmt.Sprintf(" + %g %s", m.price, keep)
			choices = append(choices, keep)
		}
		switch {
		case anybody:
			stay := make([]string, len(sizes))
			for c, n := range count {
				if n == 0 {
					continue
				}
				stay[c] = fmt.Sprintf("stay%s_%d", at, c)
				counts = append(counts, stay[c])
				rows = append(rows, " + "+stay[c]+fmt.Sprintf(kept, float64(n)))
				unmoved, targets[c], total[c] = unmoved+" - "+stay[c], targets[c]+" + "+stay[c], total[c]+n
			}
			pods += len(m.pods)
			place(at, m.room, stay, kept)
		case m.stays:
			place(at, left, nil, kept)
		default:
			place(at, left, nil, kept)
			for c, n := range count {
				total[c] += n
				targets[c] += fmt.Sprintf(" + %d %s", n, keep)
			}
			pods += len(m.pods)
			unmoved += fmt.Sprintf(" - %d %s", len(m.pods), keep)
		}
	}
	for i, b := range f.fresh {
		if slices.ContainsFunc(f.fresh[:i], b.within) || slices.ContainsFunc(f.fresh[i+1:], func(o priced) bool { return b.within(o) && !o.within(b) }) {
			continue
		}
		launch := fmt.Sprintf("launchT%d", i)
		place(fmt.Sprintf("T%d", i), b.room, nil, " - %g "+launch+" <= 0")
		spent += fmt.Sprintf(" + %g %s", b.price, launch)
		counts = append(counts, launch)
	}
	for c := range sizes {
		rows = append(rows, fmt.Sprintf("%s >= %d", targets[c], total[c]))
	}
	rows = append(rows, fmt.Sprintf("%s <= %g", spent, price))
	return fmt.Sprintf("\\ %d pods could be evicted\n", pods) + strings.ReplaceAll("Minimize\n"+unmoved+"\nSubject To\n"+strings.Join(rows, "\n")+
		"\nGenerals\n"+strings.Join(counts, "\n")+"\nBinaries\n"+strings.Join(choices, "\n")+"\nEnd\n", " + ", "\n + ")
}

// within reports whether another node has as much room and costs no more.
func (p priced) within(o priced) bool {
	return p.room[0] <= o.room[0] && p.room[1] <= o.room[1] && p.price >= o.price
}

// TestTheProgram compares the programs for one node that may go, one that stays, and one type
// that can be launched, since the other is dearer.
func TestTheProgram(t *testing.T) {
	t.Parallel()
	f := &fleet{
		sizes: []vector{{1, 2}, {1, 2}},
		fresh: []priced{{room: vector{4, 8}, price: 0.5}, {room: vector{4, 8}, price: 0.75}},
		owned: []priced{{room: vector{8, 16}, price: 2, pods: []int{0, 0, 1}}, {room: vector{8, 16}, price: 2, pods: []int{1}, stays: true}},
	}
	going := `\ 3 pods could be evicted
Minimize
 - 3 keepH0
Subject To

 + 1 comeH0_0 - 5 keepH0 <= 0

 + 2 comeH0_0 - 10 keepH0 <= 0

 + 1 comeH1_0 <= 7

 + 2 comeH1_0 <= 14

 + 1 comeT0_0 - 4 launchT0 <= 0

 + 2 comeT0_0 - 8 launchT0 <= 0

 + comeH0_0
 + 3 keepH0
 + comeH1_0
 + comeT0_0 >= 3

 + 2 keepH0
 + 0.5 launchT0 <= 1
Generals
comeH0_0
comeH1_0
comeT0_0
launchT0
Binaries
keepH0
End
`
	anybody := `\ 4 pods could be evicted
Minimize
 - stayH0_0 - stayH1_0
Subject To

 + stayH0_0 - 3 keepH0 <= 0

 + 1 comeH0_0
 + 1 stayH0_0 - 8 keepH0 <= 0

 + 2 comeH0_0
 + 2 stayH0_0 - 16 keepH0 <= 0

 + stayH1_0 <= 1

 + 1 comeH1_0
 + 1 stayH1_0 <= 8

 + 2 comeH1_0
 + 2 stayH1_0 <= 16

 + 1 comeT0_0 - 4 launchT0 <= 0

 + 2 comeT0_0 - 8 launchT0 <= 0

 + stayH0_0
 + comeH0_0
 + stayH1_0
 + comeH1_0
 + comeT0_0 >= 4

 + 2 keepH0
 + 0.5 launchT0 <= 1
Generals
stayH0_0
comeH0_0
stayH1_0
comeH1_0
comeT0_0
launchT0
Binaries
keepH0
End
`
	for want, got := range map[string]string{going: f.program(3, false), anybody: f.program(3, true)} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the program is another (-want +got):\n%s", diff)
		}
	}
}
