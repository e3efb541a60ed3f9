// Package ec2catalog is what EC2 sells, as data in the binary: the Linux instances of
// us-east-1 with their prices of May 2025, in the labels of the Karpenter provider for
// AWS. It is what dovetail simulate launches from when there is no account to ask.
//
// The table is written by tools/ec2catalog from a public data set (LICENSE.txt). Three
// things in it are not from there: the interfaces of instances with several network cards,
// the names of accelerators, and which zone has which spot price, which is an assignment.
// Zones are those of the account-independent ids (use1-az1).
package ec2catalog

//go:generate go -C ../../tools run ./ec2catalog ../internal/cloud/ec2catalog/ec2.csv.gz
