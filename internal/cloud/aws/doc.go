// Package aws is the provider of instances of Amazon EC2, for EC2NodeClasses.
//
// What keeps a launch from happening twice is the ledger (ledger.go): requests that want
// the same are launched together by one CreateFleet, and before it is sent each of its
// NodeClaims is marked with the name of that launch (mark.go), which its instances have as a
// tag. After a lost answer or a crash the instances are looked for by that tag before anything
// is launched for the same claims. Nothing is launched by what a mark says, and what EC2
// answers to a repeated token is believed only as far as it names instances.
//
// Provider composes one type for each subject. Read provider.go, then the road of a launch:
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
