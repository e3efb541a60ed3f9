// Package convert says what objects of older versions of Karpenter's API mean in v1. Nothing in it
// asks a cluster or a cloud.
//
// The API server stores objects of v1beta1 as they are, under v1 (config/crd). What the controller
// makes of the fields that they still have is in effective.go. Manifests are converted by convert.go, by way of
// beta.go, alpha.go and other.go, a file for each age; converter.go is what these have in common.
package convert
