// Package translate turns Kubernetes and Karpenter objects into core values and back.
// It is the one place that reads a PodSpec. Everything here is a pure function of its
// arguments; what needs a watch or a client lives in internal/kube/mirror.
package translate
