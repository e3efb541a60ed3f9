// Package apply performs what the core decided. It alone writes to the API server: NodeClaims,
// conditions, taints, Nodes, nominations, evictions. Every action is safe to perform twice,
// because a crash may come between any two of them, and each reads the newest state before it
// acts.
package apply
