package cluster

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Clock is the time in a cluster and the way to do something later. What it runs must not overlap
// with anything else that uses the cluster.
type Clock interface {
	Now() time.Time
	After(pause time.Duration, do func())
}

// Instances reports the state of the instances behind the Nodes.
type Instances interface {
	// State returns the state of the instance of a Node; false: the Node has no instance.
	State(node string) (InstanceState, bool)
}

// InstanceState is what the cluster must know of an instance.
type InstanceState struct {
	// Up reports whether its kubelet works, SilentSince since when it does not.
	Up          bool
	SilentSince time.Time
	// Ended reports whether the cloud has ended it.
	Ended bool
}

// Config is what a cluster is made of. Only the hooks may be nil.
type Config struct {
	Clock     Clock
	Instances Instances
	// Between draws how long something takes.
	Between func(least, most time.Duration) time.Duration
	Hooks   Hooks
}

// Hooks are called when something happens, and may have it go wrong. Each may be nil.
type Hooks struct {
	// Note gets a line for each write, Count the name of what happened.
	Note  func(format string, args ...any)
	Count func(what string)
	// Unchanged is called for a write that changes nothing, Evicted for an eviction that is granted.
	Unchanged func(kind string, o client.Object)
	Evicted   func(pod *corev1.Pod)
	// DetachesLate decides whether detaching a volume takes long this time.
	DetachesLate func() bool
}

func (h *Hooks) setDefaults() {
	if h.Note == nil {
		h.Note = func(string, ...any) {}
	}
	if h.Count == nil {
		h.Count = func(string) {}
	}
	if h.Unchanged == nil {
		h.Unchanged = func(string, client.Object) {}
	}
	if h.Evicted == nil {
		h.Evicted = func(*corev1.Pod) {}
	}
	if h.DetachesLate == nil {
		h.DetachesLate = func() bool { return false }
	}
}

func (c *Config) now() time.Time { return c.Clock.Now() }

// after has something done after a pause.
func (c *Config) after(pause time.Duration, do func()) { c.Clock.After(pause, do) }

// soon has something done after a drawn pause.
func (c *Config) soon(least, most time.Duration, do func()) { c.after(c.Between(least, most), do) }

// isUp reports whether the kubelet of a Node works.
func (c *Config) isUp(node string) bool {
	i, _ := c.Instances.State(node)
	return i.Up
}
