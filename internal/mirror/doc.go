// Package mirror keeps what the API server says at hand: it watches, indexes, and
// answers questions about which object belongs to which.
//
// Node and claim are the same machine when their provider IDs are; a name proves
// nothing. Everything is read from the cache, so an answer can be a moment old: who acts
// on one must be safe to act twice.
//
// Read index.go first.
package mirror
