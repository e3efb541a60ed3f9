// Package crd holds the CustomResourceDefinitions of every kind in api/, as YAML.
// They are generated from the markers there ("make generate"); do not edit them.
package crd

import "embed"

//go:embed *.yaml
var files embed.FS

// Files returns the CRDs, one in each *.yaml file of the root.
func Files() embed.FS {
	return files
}
