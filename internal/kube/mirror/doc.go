// Package mirror keeps what the API server tells and hands it out as one value: watch
// in, snapshot out. It also remembers what the API cannot tell yet: claims just made,
// and which machine a plan meant each pod for.
//
// Read store.go (what is kept and how it is fed), then snapshot.go (how it is handed
// out). Nothing here decides anything.
package mirror
