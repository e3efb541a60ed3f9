// Package nodepool is the loops that keep NodePools' annotations and status true: the
// hash of the template, whether the spec makes sense, whether the node class is ready,
// how much capacity the pool has, and whether its launches become nodes.
//
// They write conditions of one list, each its own, with an optimistic lock: a conflict
// is no error, the pool is looked at again. Pools of other providers are left alone.
// Read controllers.go, then one file a loop.
package nodepool
