// Package mirror keeps a copy of the cluster in memory and hands it out as one value: watch
// events in, cluster.Snapshot out. It also remembers what the API server does not show yet or
// never will: NodeClaims just created, which node each pod is planned for, and what became of
// evicted pods. It decides nothing.
//
// It may import translate, cloud and the core; the loops, apply and observe stand above it.
//
// Read store.go first: it says which parts the Store has and which lock protects them. Then
// feed.go (how watch events come in) and snapshot.go (how a snapshot is built).
package mirror
