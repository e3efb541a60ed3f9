// Package instance describes an EC2 instance type as a node of a class: its labels, its capacity
// for pods, its zones and prices. All of it is arithmetic on what EC2, the class and the price
// list say; the formulas are those of Karpenter.
//
// Read class.go (what is known), instance.go (one type), then labels.go, capacity.go, overhead.go and offerings.go.
package instance
