// Package kubelet reads the kubelet's configuration that a class carries (spec.kubelet),
// says what is wrong with it, and works it out for one instance type.
//
// A class may hold every field of kubelet.config.k8s.io/v1beta1. Twelve of them are
// managed: they are known to every family of images and decide what pods can use. The
// value of maxPods, and the amounts of systemReserved and kubeReserved, may be expressions
// in CEL over what the instance has.
//
// Read parse.go (from a class), config.go (what is kept), check.go (what is refused),
// expression.go (CEL), then resolve.go (for one instance type).
package kubelet
