package main

import (
	"math/bits"
	"math/rand/v2"
	"slices"
)

const (
	// exactUpTo is the size of a knot up to which every order of its files is considered:
	// 2^16 sets of files.
	exactUpTo = 16
	// shakes is how often the search among the orders of a larger knot leaves the best
	// order it has found, to look elsewhere.
	shakes = 3000
)

// layers returns the order of a package's files, as indices, in which the references that
// run upwards weigh least: files[order[0]] is at the top and uses those below it. The
// problem is the minimum feedback arc set. Files that use each other in no circle are
// sorted exactly; so are knots (strongly connected files) of up to exactUpTo files. For
// larger knots the answer is the best that a search from the same seed each time finds.
func layers(uses [][]int) []int {
	var order []int
	for _, knot := range knots(uses) {
		if len(knot) <= exactUpTo {
			order = append(order, best(uses, knot)...)
		} else {
			order = append(order, search(uses, knot)...)
		}
	}
	return order
}

// against returns what the references weigh that run upwards in an order of all or some files.
func against(uses [][]int, order []int) int {
	n := 0
	for below, i := range order {
		for _, j := range order[:below] {
			n += uses[i][j]
		}
	}
	return n
}

// knots returns the strongly connected components, those that use others before those
// that they use (Tarjan's algorithm finds them the other way round).
func knots(uses [][]int) [][]int {
	n := len(uses)
	number, low, onStack := make([]int, n), make([]int, n), make([]bool, n)
	var stack []int
	var found [][]int
	count := 0
	var visit func(v int)
	visit = func(v int) {
		count++
		number[v], low[v] = count, count
		stack, onStack[v] = append(stack, v), true
		for u := range n {
			switch {
			case uses[v][u] == 0:
			case number[u] == 0:
				visit(u)
				low[v] = min(low[v], low[u])
			case onStack[u]:
				low[v] = min(low[v], number[u])
			}
		}
		if low[v] != number[v] {
			return
		}
		at := slices.Index(stack, v)
		knot := slices.Sorted(slices.Values(stack[at:]))
		for _, u := range knot {
			onStack[u] = false
		}
		stack = stack[:at]
		found = append(found, knot)
	}
	for v := range n {
		if number[v] == 0 {
			visit(v)
		}
	}
	slices.Reverse(found)
	return found
}

// best considers all orders of a knot, by the sets of files that may stand on top.
func best(uses [][]int, knot []int) []int {
	n := len(knot)
	cost, last := make([]int, 1<<n), make([]int, 1<<n)
	for set := 1; set < 1<<n; set++ {
		cost[set] = -1
		for v := range n {
			if set>>v&1 == 0 {
				continue
			}
			above := set &^ (1 << v)
			sum := cost[above]
			for rest := above; rest != 0; rest &= rest - 1 {
				sum += uses[knot[v]][knot[bits.TrailingZeros(uint(rest))]]
			}
			if cost[set] < 0 || sum < cost[set] {
				cost[set], last[set] = sum, v
			}
		}
	}
	order := make([]int, n)
	for set, i := 1<<n-1, n-1; i >= 0; i-- {
		order[i] = knot[last[set]]
		set &^= 1 << last[set]
	}
	return order
}

// search improves an order of a knot until moving no single file helps, then shakes it
// and improves it again.
func search(uses [][]int, knot []int) []int {
	random := rand.New(rand.NewPCG(1, 2))
	found := improve(uses, slices.Clone(knot))
	least := against(uses, found)
	now, cost := slices.Clone(found), least
	for range shakes {
		next := slices.Clone(now)
		for range 2 + random.IntN(4) {
			move(next, random.IntN(len(next)), random.IntN(len(next)))
		}
		next = improve(uses, next)
		n := against(uses, next)
		if n <= cost {
			now, cost = next, n
		}
		if n < least {
			found, least = slices.Clone(next), n
		}
	}
	return found
}

// improve moves one file after another to where it stands best, until none moves.
func improve(uses [][]int, order []int) []int {
	for moved := true; moved; {
		moved = false
		for _, v := range slices.Clone(order) {
			from := slices.Index(order, v)
			to, gain := from, 0
			for sum, i := 0, from-1; i >= 0; i-- { // upwards past order[i]
				if sum += uses[v][order[i]] - uses[order[i]][v]; sum > gain {
					to, gain = i, sum
				}
			}
			for sum, i := 0, from+1; i < len(order); i++ { // downwards past order[i]
				if sum += uses[order[i]][v] - uses[v][order[i]]; sum > gain {
					to, gain = i, sum
				}
			}
			if gain > 0 {
				move(order, from, to)
				moved = true
			}
		}
	}
	return order
}

// move takes the file at one place of an order to another.
func move(order []int, from, to int) {
	v := order[from]
	if from < to {
		copy(order[from:to], order[from+1:to+1])
	} else {
		copy(order[to+1:from+1], order[to:from])
	}
	order[to] = v
}
