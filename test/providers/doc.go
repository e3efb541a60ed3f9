// Package providers runs the whole product against providers over their real wire, on the virtual clock of internal/sim/world, whose cloud
// is behind the provider: one fault at a time, and an hour of all of them. The world's checkers judge: instances, NodeClaims
// and Nodes belong together one to one in the end, no NodeClaim has two instances, and none is lost.
//
// Read providers_test.go (the runs), remote_test.go (gRPC over a unix socket), clusterapi_test.go (Cluster API's objects and
// controllers) and kwok_test.go (an API server whose Nodes have instances). AWS has its own, against its own API: test/disaster.
package providers
