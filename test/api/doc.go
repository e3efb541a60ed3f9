// Package api holds tests of the CRDs against a real API server: every rule,
// pattern, enum, bound and default has an entry that is accepted and one that is
// refused, with the field that the refusal names.
//
// The tables are keyed by what the schema says; TestEveryConstraintHasAnEntry
// reads the CRDs and fails for a constraint without an entry, and for an entry
// without a constraint. Read table_test.go first, then one kind's table.
package api
