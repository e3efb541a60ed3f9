// Package class finds out, without asking EC2, whether instances of an EC2NodeClass can be
// launched (validate.go), and whether an instance is still what the class would launch (hash.go,
// drift.go). Package aws asks EC2 what this package cannot know.
package class
