// Package aws is the provider of machines of Amazon EC2, for EC2NodeClasses.
//
// What keeps a launch from happening twice is the ledger (ledger.go): requests that want
// the same are bought together by one CreateFleet, and before it is sent it is written
// down whole, as a ConfigMap, with the token that makes EC2 answer a repeat with what the
// first one launched. After a lost answer or a crash the same bytes are sent again.
//
// Read provider.go, then the road of a launch: launch.go (who is bought together),
// ledger.go (at most once), fleet.go (what is asked of EC2), failure.go (what its no
// means). Then machine.go and instances.go (what runs), and budget.go, which keeps all
// calls below EC2's own limits. What was found in the account for a class is in its
// status, which class.go keeps; a launch reads nothing else.
package aws
