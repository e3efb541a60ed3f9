// Package aws is the provider of instances of Amazon EC2, for EC2NodeClasses.
//
// The ledger (ledger.go) keeps a launch from happening twice. Requests that want the same go
// into one batch, which is one call of CreateFleet. Before it is sent, each NodeClaim of the
// batch is marked with the batch's name (mark.go), which its instances have as a tag. After a
// lost answer or a crash, instances are looked for by that tag before anything is launched for
// the same claims. Nothing is launched because of a mark. Of EC2's answer to a repeated token
// only the instances that it names are believed.
//
// Provider composes one type for each subject. Read provider.go, then the way of a launch:
// launch.go (which requests go together), fleetspec.go and templates.go (what is launched),
// ledger.go and mark.go (at most once), fleet.go (what is asked of EC2), refusals.go (what its
// refusals mean). Then instances.go (what runs), and limiter.go, which keeps all calls below
// EC2's own limits. What was found in the account for a class (images.go, network.go,
// profile.go, reservations.go, placement.go) is in its status, which class.go keeps; a launch
// reads nothing else. What EC2 sells, and for how much, is in market.go.
//
// It may import the seam (internal/cloud), its own sub-packages, kube/translate,
// kube/condition and the core.
package aws
