package world

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
)

// Mutant is a bug put between the product and the world: it changes what the product sees
// or what it does. Each field but the name may be nil.
type Mutant struct {
	Name string
	// With is what there must be in a world for the bug to show.
	With []Fault
	// See changes what a process is shown.
	See func(w *World, o client.Object)
	// Create changes what is created, Patch what is patched; nil data: it is dropped.
	Create func(w *World, o client.Object)
	Patch  func(w *World, o client.Object, data []byte, status bool) []byte
	// Evict takes an eviction's place.
	Evict func(w *World, pod *corev1.Pod) (done bool)
	// Launch changes an order, Terminate takes a termination's place, List changes what is listed.
	Launch    func(w *World, r *cloud.LaunchRequest)
	Terminate func(id string) (done bool, err error)
	List      func(list []cloud.Instance) []cloud.Instance
	// Answer changes what is answered about an instance, Failed a late failure, Patience how long launches may take.
	Answer   func(i *cloud.Instance)
	Failed   func(f *cloud.Failure)
	Patience func(p lifecycle.Patience) lifecycle.Patience
	// Pause changes for how long an item of a queue rests, Now what time it is.
	Pause func(time.Duration) time.Duration
	Now   func(time.Time) time.Time
	// Unquarantined has provisioning forget before each decision which pods it could not cope with.
	Unquarantined bool
	// Unescalated has disruption forget how often nodes were rebooted.
	Unescalated bool
	// Unfenced lets a leader act that stood still.
	Unfenced bool
}

// needs returns what there must be in the mutant's world; it may be nil.
func (m *Mutant) needs() []Fault {
	if m == nil {
		return nil
	}
	return m.With
}
