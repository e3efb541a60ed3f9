// Package providerv1 is the protocol between Dovetail and a provider of instances that runs outside
// of its process, as generated from provider.proto. It may be imported by anybody. What was released
// of it never changes: released.txt lists it, and a test compares.
//
// Read provider.proto. tools/protocol writes the Go files (make generate).
package providerv1
