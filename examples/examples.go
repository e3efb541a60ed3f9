// Package examples holds manifests for a first look at Dovetail on the kwok provider:
// kubectl apply -f them by hand, in the order of their numbers, or let "dovetail demo" do it.
package examples

import "embed"

//go:embed *.yaml
var files embed.FS

// Files returns the manifests, *.yaml in the root.
func Files() embed.FS {
	return files
}
