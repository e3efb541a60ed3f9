package view

import "time"

// Explained is what is known of something that a person asks about by its name.
type Explained struct {
	Kind string
	// Name has the namespace of what is in one.
	Name string
	// Now says what it does or waits for; empty: that is not known. Ends says until when, or what ends that.
	Now, Ends string
	// Node, Claim and Pool are those that it belongs to, and InstanceType the node's.
	Node, Claim, Pool, InstanceType string
	// Facts are what the newest decision about it saw of it.
	Facts []string
	// Says are what was decided about it, the newest first.
	Says []Said
	// IsLaunch: a decision launched it, and can be asked why as that instance type. Ranking is the answer; nil: nobody asked.
	IsLaunch bool
	Ranking  *Ranking
}

// Ranking says why a node is of its instance type.
type Ranking struct {
	Caption string
	Titles  []string
	Rows    [][]string
	// Fault says why there are no rows. PassedMore and HeldMore are how many cheaper types were passed over and how many
	// dearer ones hold the pods, apart from those of the rows.
	Fault                string
	PassedMore, HeldMore int
}

// Said is one thing that was decided, as long as it was decided again and again.
type Said struct {
	First, Last time.Time
	Times       int64
	// Decision is the last one that said it and was kept; empty: none was.
	Decision string
	What     string
	Details  []string
	// Ends says until when a refusal holds, or what would change it.
	Ends string
}
