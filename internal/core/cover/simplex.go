package cover

import "math"

const (
	// tolerance is below which a reduced cost or a pivot counts as zero. Rows and columns
	// are scaled to about one by those who build them.
	tolerance = 1e-9
	// refactorEvery is after how many pivots the inverse is computed anew.
	refactorEvery = 200
	// wantedMax is how many columns are noted when all are looked at.
	wantedMax = 8
)

// linear is a linear program in covering form: minimise cost·x over x ≥ 0 such that each
// row of A·x is at least its need. Columns are sparse and may be added between calls of
// solve, which goes on from the basis where it stopped. Each row begins with a column of
// very high cost, so there is always an answer; prices are the dual values of the rows.
type linear struct {
	rows   int
	need   []float64
	cost   []float64
	start  []int32 // of each column in index and value; one more at the end
	index  []int32
	value  []float64
	basis  []int32   // column of each row
	in     []bool    // whether a column is in the basis
	inv    []float64 // of the basis, by rows
	x      []float64 // value of the basic columns
	prices []float64
	enter  []float64 // scratch: the entering column, seen from the basis
	pivots int
	// wanted are the columns that saved most when all were looked at last, gains what.
	wanted []int32
	gains  []float64
}

// newLinear returns a program without columns but for those that stand in for what is
// missing, at the given cost, and the surplus of each row.
func newLinear(need []float64, penalty float64) *linear {
	m := len(need)
	l := &linear{rows: m, need: need, start: []int32{0}}
	l.basis = make([]int32, m)
	l.inv = make([]float64, m*m)
	l.x = make([]float64, m)
	l.prices = make([]float64, m)
	l.enter = make([]float64, m)
	one := []float64{1}
	for i := range m {
		// A row that needs nothing starts with its surplus, one that does with its penalty.
		l.basis[i] = l.add(0, []int32{int32(i)}, []float64{-1})
		l.inv[i*m+i] = -1
		if need[i] > 0 {
			l.basis[i] = l.add(penalty, []int32{int32(i)}, one)
			l.inv[i*m+i] = 1
		}
		l.x[i] = math.Abs(need[i])
		l.in[l.basis[i]] = true
	}
	return l
}

// add appends a column and returns its number.
func (l *linear) add(cost float64, index []int32, value []float64) int32 {
	l.cost = append(l.cost, cost)
	l.index = append(l.index, index...)
	l.value = append(l.value, value...)
	l.start = append(l.start, int32(len(l.index)))
	l.in = append(l.in, false)
	return int32(len(l.cost) - 1)
}

// solve does up to the given number of pivots, fewer if the prices are then the best.
func (l *linear) solve(pivots int) {
	l.price()
	l.wanted = l.wanted[:0]
	for range pivots {
		j := l.entering()
		if j < 0 {
			break
		}
		l.seen(j)
		i := l.pivotRow()
		if i < 0 {
			break // unbounded: cannot be with costs that are not negative
		}
		l.pivot(i, j)
	}
	l.price()
}

// renew makes the needs others, and does up to the given number of pivots to meet them at the
// best prices, going on from where solve stopped. It reports whether that was enough.
func (l *linear) renew(need []float64, pivots int) bool {
	m := l.rows
	copy(l.need, need)
	for i := range m {
		l.x[i] = 0
		for k, v := range l.inv[i*m : i*m+m] {
			l.x[i] += v * l.need[k]
		}
	}
	for range pivots {
		i := l.short()
		if i < 0 {
			l.price()
			return true
		}
		j := l.instead(i)
		if j < 0 {
			return false
		}
		l.seen(j)
		l.pivot(i, j)
	}
	return false
}

// short returns the row whose column is farthest below nothing, or -1.
func (l *linear) short() int {
	at, least := -1, -tolerance
	for i, x := range l.x {
		if x < least {
			at, least = i, x
		}
	}
	return at
}

// instead returns the column that makes up for what the row is short of at the least cost, or -1.
func (l *linear) instead(i int) int32 {
	row := l.inv[i*l.rows : (i+1)*l.rows]
	best, ratio, largest := int32(-1), math.Inf(1), 0.0
	for j := range int32(len(l.cost)) {
		if l.in[j] {
			continue
		}
		a := 0.0
		for k := l.start[j]; k < l.start[j+1]; k++ {
			a -= row[l.index[k]] * l.value[k]
		}
		if a <= tolerance {
			continue
		}
		r := max(l.reduced(j), 0) / a
		if r < ratio-1e-12 || r <= ratio+1e-12 && a > largest {
			best, ratio, largest = j, min(r, ratio), a
		}
	}
	return best
}

// objective returns the cost of the present answer.
func (l *linear) objective() (sum float64) {
	for i, j := range l.basis {
		sum += l.cost[j] * l.x[i]
	}
	return sum
}

// price computes the dual values of the rows at the present basis.
func (l *linear) price() {
	m := l.rows
	clear(l.prices)
	for i := range m {
		c := l.cost[l.basis[i]]
		if c == 0 {
			continue
		}
		row := l.inv[i*m : i*m+m]
		for k, v := range row {
			l.prices[k] += c * v
		}
	}
}

// reduced returns the reduced cost of a column.
func (l *linear) reduced(j int32) float64 {
	d := l.cost[j]
	for k := l.start[j]; k < l.start[j+1]; k++ {
		d -= l.prices[l.index[k]] * l.value[k]
	}
	return d
}

// entering returns the column that saves most, of those that saved most when all were
// looked at last, or -1.
func (l *linear) entering() int32 {
	for {
		best, least := int32(-1), -tolerance
		for _, j := range l.wanted {
			if l.in[j] {
				continue
			}
			if d := l.reduced(j) / (1 + l.cost[j]); d < least {
				best, least = j, d
			}
		}
		if best >= 0 {
			return best
		}
		if !l.want() {
			return -1
		}
	}
}

// want looks at all columns and notes those that save most. It reports whether there are any.
func (l *linear) want() bool {
	l.wanted, l.gains = l.wanted[:0], l.gains[:0]
	least := -tolerance
	for j := range int32(len(l.cost)) {
		if l.in[j] {
			continue
		}
		d := l.reduced(j) / (1 + l.cost[j])
		if d >= least {
			continue
		}
		if len(l.wanted) < wantedMax {
			l.wanted, l.gains = append(l.wanted, j), append(l.gains, d)
		} else {
			w := l.leastWanted()
			l.wanted[w], l.gains[w] = j, d
			least = l.gains[l.leastWanted()]
		}
	}
	return len(l.wanted) > 0
}

// leastWanted returns which of the columns that are wanted saves least.
func (l *linear) leastWanted() (w int) {
	for i, g := range l.gains {
		if g > l.gains[w] {
			w = i
		}
	}
	return w
}

// seen computes the column from the basis into enter.
func (l *linear) seen(j int32) {
	m := l.rows
	clear(l.enter)
	for k := l.start[j]; k < l.start[j+1]; k++ {
		v := l.value[k]
		for i, at := 0, int(l.index[k]); i < m; i, at = i+1, at+m {
			l.enter[i] += l.inv[at] * v
		}
	}
}

// pivotRow returns the row whose column gives way to enter, or -1. Among ties the largest
// pivot, for the sake of the numbers, then the lowest column, against going in circles.
func (l *linear) pivotRow() int {
	best, ratio := -1, math.Inf(1)
	for i, e := range l.enter {
		if e <= tolerance {
			continue
		}
		r := max(l.x[i], 0) / e
		switch {
		case best < 0 || r < ratio-1e-12:
			best, ratio = i, r
		case r <= ratio+1e-12 && (e > 2*l.enter[best] || e > l.enter[best]/2 && l.basis[i] < l.basis[best]):
			best = i
			ratio = min(r, ratio)
		}
	}
	return best
}

func (l *linear) pivot(i int, j int32) {
	m := l.rows
	e := l.enter[i]
	theta := max(l.x[i]/e, 0)
	row := l.inv[i*m : i*m+m]
	for k := range row {
		row[k] /= e
	}
	for o := range m {
		f := l.enter[o]
		if o == i || f == 0 {
			continue
		}
		l.x[o] -= theta * f
		other := l.inv[o*m : o*m+m]
		for k, v := range row {
			other[k] -= f * v
		}
	}
	// What the column would have saved is now no more to be had.
	saved := l.reduced(j)
	for k, v := range row {
		l.prices[k] += saved * v
	}
	l.x[i] = theta
	l.in[l.basis[i]] = false
	l.in[j] = true
	l.basis[i] = j
	if l.pivots++; l.pivots%refactorEvery == 0 {
		l.refactor()
		l.price()
	}
}

// refactor computes the inverse of the basis anew, for rounding errors add up.
func (l *linear) refactor() {
	m := l.rows
	a := make([]float64, m*m)
	for c, j := range l.basis {
		for k := l.start[j]; k < l.start[j+1]; k++ {
			a[int(l.index[k])*m+c] = l.value[k]
		}
	}
	inv := make([]float64, m*m)
	for i := range m {
		inv[i*m+i] = 1
	}
	for c := range m {
		p := c
		for i := c + 1; i < m; i++ {
			if math.Abs(a[i*m+c]) > math.Abs(a[p*m+c]) {
				p = i
			}
		}
		if math.Abs(a[p*m+c]) < 1e-12 {
			return // singular to the eye: better the old one
		}
		if p != c {
			for k := range m {
				a[p*m+k], a[c*m+k] = a[c*m+k], a[p*m+k]
				inv[p*m+k], inv[c*m+k] = inv[c*m+k], inv[p*m+k]
			}
		}
		eliminate(a, inv, c, m)
	}
	l.inv = inv
	for i := range m {
		l.x[i] = 0
		for k := range m {
			l.x[i] += inv[i*m+k] * l.need[k]
		}
	}
}

// eliminate makes column c of a that of the unit matrix, and does to inv the same.
func eliminate(a, inv []float64, c, m int) {
	d := a[c*m+c]
	for k := range m {
		a[c*m+k] /= d
		inv[c*m+k] /= d
	}
	for i := range m {
		f := a[i*m+c]
		if i == c || f == 0 {
			continue
		}
		for k := range m {
			a[i*m+k] -= f * a[c*m+k]
			inv[i*m+k] -= f * inv[c*m+k]
		}
	}
}
