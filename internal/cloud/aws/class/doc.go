// Package class judges an EC2NodeClass by what is known: whether instances can be made of it
// (validate.go), and whether an instance is still what it would make (hash.go, drift.go).
// What has to be asked of EC2 is for package aws.
package class
