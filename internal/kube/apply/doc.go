// Package apply performs what the core decided. It alone writes: claims, marks, nodes,
// evictions. Every action is safe to perform twice, because a crash may come between any
// two of them, and each looks at the newest state before it acts.
package apply
