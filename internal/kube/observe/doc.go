// Package observe shows people what happened: metrics and events, under the names that
// Karpenter's users have dashboards and alerts for. The controllers say what is to be shown;
// this package decides nothing.
//
// Metrics is a struct of everything that is counted, built from a registerer. Recorder
// writes Kubernetes events, and keeps the same thing from being said again and again.
// The files: metrics.go, then names of label values in reasons.go; objects.go for what is
// shown of each Node and Pod, conditions.go of conditions; cloud.go times calls to the provider; recorder.go, then
// events.go with one constructor for each event. docs/reference/metrics.md and
// docs/reference/events.md list both, and a test holds them to it.
package observe
