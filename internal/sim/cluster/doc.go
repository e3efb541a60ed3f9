// Package cluster is a simulated Kubernetes cluster: an API server in memory, and what stands in for
// kube-scheduler, kubelets, volumes and the workload controllers. Its clock, its delays and what goes
// wrong are its user's (Config): internal/sim/world drives it by events, test/disaster by timers of a
// synctest bubble. TestTheClusterIsLikeTheRealOne compares it with a real control plane.
//
// It imports the APIs alone, nothing of the product. It is used by one goroutine at a time.
//
// Read cluster.go (the seam), then api.go, patch.go and evict.go (the API server), client.go and reader.go
// (how it is used), and then scheduler.go, preempt.go, workloads.go, volumes.go and kubelet.go.
package cluster
