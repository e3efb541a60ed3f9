// Package observe shows people what happened: metrics and events, under the names that
// Karpenter's users have dashboards and alerts for. The controllers say what is to be shown;
// this package decides nothing.
//
// Metrics is a struct of everything that is counted, built from a registerer. Recorder
// writes Kubernetes events, and does not repeat the same event within a while.
//
// It may import the mirror, translate, cloud and the core. Read metrics.go, then reasons.go (values
// of labels), objects.go and conditions.go (what is shown of Nodes, pods and conditions), scrape.go
// (how that is served) and cloud.go (times calls to the provider); then recorder.go and events.go, which has one constructor for each
// event. docs/reference/metrics.md and docs/reference/events.md list both, and a test compares them.
package observe
