// Package clusterapi is the provider for Cluster API: an instance is a Machine object of a management
// cluster, which Cluster API's controllers and an infrastructure provider (vSphere, Metal3, Proxmox, …)
// make real.
//
// The catalog is the MachineDeployments that a ClusterAPINodeClass selects: each says which templates
// a node is made from, and the provider reads from them, or from their annotations, what such a node
// has. It never changes their replicas. An instance is a Machine of its own, with no MachineSet above it.
// It is cloned from these templates and has the name of its NodeClaim, so a repeated launch finds it. The Machine is
// created first and owns what is created after it, so one deletion takes everything, whenever a
// process dies in between. All that must be known later about a launch is an annotation of its Machine.
//
// The provider speaks v1beta2 of Cluster API, and v1beta1 where that is all there is. The few fields
// that it needs are read from unstructured objects (docs/adr/0011-cluster-api-without-its-types.md).
//
// Read fields.go (fields of both versions) and management.go (the management cluster), then
// deployment.go, capacity.go, kubelet.go, prices.go and listing.go (the catalog), provider.go, record.go, bootstrap.go and
// launch.go, failure.go and instances.go, adopt.go (Machines of the earlier provider), notices.go and changes.go (what is
// watched), drift.go, learn.go and class.go (the class's status), and for those who look before the controller runs examine.go and
// groups.go (node groups that somebody else scales).
package clusterapi
