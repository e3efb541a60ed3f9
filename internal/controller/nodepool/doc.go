// Package nodepool is the loops that keep NodePools' annotations and status up to date: the
// hash of the template, whether the spec is valid, whether the node class is ready, how much
// capacity the pool has, and whether its launches become nodes.
//
// They write conditions of one list, each its own, with an optimistic lock: a conflict is no
// error, the pool is reconciled again. Pools of other providers are not touched.
// Read controllers.go, then one file a loop.
package nodepool
