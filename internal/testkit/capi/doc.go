// Package capi runs Cluster API's own controllers and those of its Dev provider, whose virtual machines are
// in memory, on a dev cluster that is both the management cluster and the one whose nodes they are. The Nodes
// are this package's: those of the Dev provider are in an API server of its own.
//
// Read cluster.go, definitions.go, manager.go and kubelets.go, then capi.go.
package capi
