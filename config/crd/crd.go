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

//go:embed legacy/*.yaml
var legacy embed.FS

// Legacy returns the CRDs of Provisioner and AWSNodeTemplate, which came before v1beta1, in the
// directory legacy. They are written by hand: they keep whatever they are given.
func Legacy() embed.FS {
	return legacy
}
