// Package awssim is an AWS account on loopback: EC2, SQS, SSM, IAM, EKS, Pricing, STS,
// zonal shift and instance metadata, as far as a node autoscaler calls them, behind one
// HTTP handler that speaks the services' own protocols. It is driven by the official SDK
// and by nothing else, and shares no code with the provider that it judges.
//
// The idea: all state is behind one lock and moves only in [Sim.Tick], which performs
// what is due by the clock that the caller gave. A request first catches up, then acts.
// With a [Manual] clock an hour passes as fast as the caller says so; with the system's
// clock [Sim.Run] ticks. One seed decides ids, latencies, boot times and prices.
//
// A started instance "boots": package boot reads its user data as the image would and
// says which Node its kubelet reports; the [Registrar] gets it.
//
// Sim composes one part for each service or subject, each with its own state. Read sim.go
// and http.go, then the way of a launch: fleet.go, launchoption.go, launch.go, instance.go,
// join.go; then fault.go and inject.go. The rest is one file a service or subject. It may
// import cloud/ec2catalog and package boot, and nothing of the provider.
package awssim
