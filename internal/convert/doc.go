// Package convert says what objects of older versions of Karpenter's API mean in v1. Nothing in it
// asks a cluster or a cloud.
//
// The API server stores objects of v1beta1 as they are, under v1 (config/crd). What the controller
// makes of the fields that they still have is in effective.go.
package convert
