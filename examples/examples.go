// Package examples holds manifests for a first look at Dovetail, a directory a cloud:
// kubectl apply -f them by hand, in the order of their numbers, or let "dovetail demo" do it.
package examples

import (
	"embed"
	"io/fs"
)

//go:embed aws/*.yaml
var aws embed.FS

//go:embed kwok/*.yaml
var kwok embed.FS

// AWS returns the manifests for EC2, *.yaml in the root.
func AWS() fs.FS { return sub(aws, "aws") }

// KWOK returns the manifests for simulated nodes, *.yaml in the root.
func KWOK() fs.FS { return sub(kwok, "kwok") }

func sub(files embed.FS, dir string) fs.FS {
	root, err := fs.Sub(files, dir)
	if err != nil {
		panic("examples: " + err.Error()) // only for a name that is no path
	}
	return root
}
