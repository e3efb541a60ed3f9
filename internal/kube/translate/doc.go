// Package translate turns Kubernetes and Karpenter objects into core values and back.
// It is the one place that reads a PodSpec. Everything here is a pure function of its
// arguments; what needs a watch or a client lives in internal/kube/mirror.
//
// It may import the API types and the core. Read pod.go (what decides where a pod goes), node.go
// and pool.go (what it can go to), then claim.go (what is launched).
package translate
