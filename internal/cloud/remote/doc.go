// Package remote is the provider whose instances another process launches, in any language. It asks
// that process over the protocol of api/provider/v1 and is one more cloud.Provider.
//
// The other process is not trusted to be right, to answer, or to stay the same. What it says is
// checked (package wire) and refused whole where it cannot be; everything that is held has a bound;
// every call has a deadline, and no answer means that nothing is known: no instance is considered
// gone, and a launch is repeated with its token. A list without its end is an error, never a short
// list.
//
// Read client.go (the connection), provider.go, feed.go and snapshot.go (the instance types),
// launch.go, instances.go, drift.go, notices.go, and credentials.go. Package serve is the other side, for a
// cloud.Provider in Go.
package remote
