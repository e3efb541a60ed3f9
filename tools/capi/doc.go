// Package capi pins Cluster API's own controllers and those of its Dev provider, which make test-capi
// builds and runs the provider clusterapi against. It is a module of its own since they are of other
// versions of the Kubernetes libraries than the product.
package capi
