// Package instance says what a type of EC2's is as a node of a class: its labels, what it
// has for pods, where it is sold and at what price. It is all arithmetic on what EC2, the
// class and the price list say; the formulas are those that Karpenter's users count on.
//
// Read class.go (what is known), instance.go (one type), then labels.go, capacity.go, overhead.go and offerings.go.
package instance
