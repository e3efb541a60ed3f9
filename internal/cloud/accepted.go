package cloud

import "github.com/dovetail-sh/dovetail/internal/core/lifecycle"

// Patient is a provider whose launches take longer than those of most clouds, or may fail after they were
// accepted.
//
// A cloud may accept a launch and work on it for minutes. Two things of it then come late:
//
//   - the providerID. Until it is known the instance is Provisional. Get is asked for the instance by its
//     provisional ID, and answers with the final one when there is one.
//   - a failure. Get then answers with an instance that Failed; whoever asks Launch again gets the same
//     answer, or the *Failure. A Watcher can say LaunchFailed sooner. A provider whose launches may fail
//     late sets Patience.Follow: else nobody asks for an instance that has its final ID, and launches are
//     sent offerings that are known to be short, which a cloud that refuses at once passes over by itself.
//
// After either the claim has the outcome that it would have had at once.
type Patient interface {
	// Patience returns how long launches of a class may take. It answers from memory.
	Patience(class ClassRef) lifecycle.Patience
}
