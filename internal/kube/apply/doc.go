// Package apply performs what the core decided. It alone writes to the API server: NodeClaims,
// conditions, taints, Nodes, nominations, evictions. Every action is safe to perform twice,
// because a crash may come between any two of them, and each reads the newest state before it
// acts.
//
// It may import the mirror, translate, condition, cloud and the core; controllers stand above it.
// Read launch.go and disrupt_step.go (plans become writes), then launch_requests.go (what is sent
// to the cloud), evict.go and nominate.go. patch.go has how everything is written, fresh.go what may be read again after it.
package apply
