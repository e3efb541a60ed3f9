// Package devices works out what ResourceClaims ask of nodes: how many pods with the same claims a
// node can have, by the devices in its ResourceSlices. It asks the allocator that kube-scheduler
// uses, so that both agree, and says the answer in amounts of resources, which is all that the core
// knows of devices.
//
// A Demand is what one pod claims, a Supply the devices of one node or of all nodes of an instance
// type. Begin with Allocator.Compile: it compares demands with supplies.
package devices
