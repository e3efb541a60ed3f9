// Package disperse spreads the pods of a workload over planned nodes, so that the loss of one node, one
// zone or one spot offering takes few of its pods.
//
// The one idea: pods are exchanged between planned nodes such that no node changes its cheapest
// offering. That costs nothing. Where it does not suffice, Cap limits how many pods of a class one
// node may have, HoldBack and Release launch workloads in parts, and the caller launches other nodes and
// compares the prices. ChooseOfferings chooses the zones of planned nodes and the instance types of spot
// nodes, for a price. Gather and GatherOnExisting bring pods together that may not be evicted.
//
// It may import pack/place and what that imports. Read workload.go first (what a workload is, and
// how many of its pods may be lost at once), then domains.go, exchange.go, parts.go, offerings.go, gather.go and existing.go.
package disperse
