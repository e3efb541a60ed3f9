// Package kwok is the provider of instances that do not exist: an instance is a Node
// object, for which the KWOK controller plays the kubelet. It is what the demo, the
// tests and a first try on any cluster run on.
//
// There is no cloud to ask, so the API server is the cloud. An instance that is to join
// at once is its Node from the start. One whose class has a nodeRegistrationDelay (or
// whose Node the API server refused) is first a record, a Lease in kube-node-lease that
// holds the Node to be, and becomes a Node when Start finds that its time has come. So
// all there is to know survives a SIGKILL: a record whose delay ended while nobody ran
// joins when Start runs again, Get and List return it meanwhile, and Launch answers a
// repeated token with it.
//
// Read types.go (what can be launched) and file.go (the same from a file), then
// provider.go, node.go (the Node of a request), launch.go, record.go and join.go (an
// instance that joins later), instances.go and reboot.go.
package kwok
