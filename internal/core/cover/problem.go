package cover

// Problem is what has to be packed and what can be opened for it. Solve reads it only.
type Problem struct {
	// Dims is the length of every Size and Capacity.
	Dims    int
	Classes []Class
	// Bins are what can be opened, any number of each unless Left says less.
	Bins []Bin
	// BinFee is added to each bin's price in choosing, never in what is reported. Some is
	// needed to keep plans from falling to very many very small bins.
	BinFee float64
}

// Class is a number of items that are alike.
type Class struct {
	// Size is what one item takes of each dimension; never negative.
	Size  []int64
	Count int
	// PerBin is the most of the class in one bin. Zero is no limit.
	PerBin int
	// Bins is the set of Problem.Bins where items may be, one bit each.
	Bins []uint64
	// Conflicts are classes that may not share a bin with this one. It holds both ways
	// even if only one of the two says so. A class never conflicts with itself: that is
	// what PerBin is for.
	Conflicts []int32
}

// Bin is something that can be opened.
type Bin struct {
	// Capacity is what it holds of each dimension.
	Capacity []int64
	// Price is not negative.
	Price float64
	// Left is how many can be opened. Zero is no limit.
	Left int
}

// Pattern is a filling of a bin, and how many bins are filled so.
type Pattern struct {
	// Bin is an index of Problem.Bins.
	Bin   int32
	Times int
	// Items are in the order of their classes.
	Items []Item
}

// Item is N items of a class, an index of Problem.Classes.
type Item struct {
	Class int32
	N     int
}

// Solution is an answer to a Problem.
type Solution struct {
	// Patterns are in the order in which they were opened.
	Patterns []Pattern
	// Price is the sum of the prices of the bins, without fees.
	Price float64
	// Unplaced are the items that no bin could take, in the order of classes.
	Unplaced []Item
	// Bound is what every packing of the placed items into bins of the Problem costs at
	// least, without fees. It is never above Price.
	Bound float64
	// ClassPrices is for each class what one item is worth: prices at which no bin holds
	// more than it costs, fees included. They rank bins and packings by use.
	ClassPrices []float64
}

// Effort is how much work Solve may do, in counts, so that the same effort gives the same
// answer on every node. The zero value is a single pass.
type Effort struct {
	// Passes is how often everything is packed anew with corrected prices; less than one is one.
	Passes int
	// Columns is how many rounds of column generation are done where the classes are few.
	Columns int
	// LowEffort leaves out what column generation does for the bound alone, and most of what it
	// does for the last few bins.
	LowEffort bool
	// Prove works the bound out to the last where there are no fees, whole bins and rules
	// included, which takes seconds.
	Prove bool
	// ProofRounds bounds the rounds of that, and the work of each in proportion; 0: as many as help.
	ProofRounds int
	// Improve is how many rounds of local search follow.
	Improve int
	// Evaluations bounds how many candidates local search looks at, for rounds differ much. Zero
	// is no limit.
	Evaluations int
	// Repeat is how often the rounds of Improve are done again at most, where the packing is far from
	// the bound. It ends when ten times they saved nothing to speak of.
	Repeat int
	// Ascend is whether better prices are found by dual ascent where the packing is far from the bound and the kinds are too
	// many for column generation and the proof: the bound rises, and local search has those prices. Twice is whether local
	// search is then done with the first prices as well.
	Ascend, Twice bool
}

// Default returns the effort that is worth it for so many items.
func Default(items int) Effort {
	switch {
	case items <= 300:
		return Effort{Passes: 8, Columns: 30, Improve: 300, Evaluations: 1_000_000, Ascend: true, Twice: true}
	case items <= 3000:
		return Effort{Passes: 3, Columns: 40, Improve: 60, Evaluations: 5_000_000, Repeat: 60, Ascend: true, Twice: true}
	case items <= 20000:
		return Effort{Passes: 4, Columns: 20, Improve: 200, Evaluations: 40_000_000, Repeat: 10, Ascend: true}
	default:
		return Effort{Passes: 4, Columns: 20, Improve: 300, Evaluations: 150_000_000, Repeat: 5, Ascend: true}
	}
}
