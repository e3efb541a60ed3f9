package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeModules writes which modules a binary consists of, as CycloneDX.
func (o *order) writeModules(binary, path string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	bom := o.modules(info)
	if err := cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return f.Close()
}

func (o *order) modules(info *buildinfo.BuildInfo) *cdx.BOM {
	bom := cdx.NewBOM()
	subject := component(cdx.ComponentTypeApplication, info.Main.Path, o.version, "")
	bom.Metadata = &cdx.Metadata{Timestamp: o.created.UTC().Format("2006-01-02T15:04:05Z"), Component: &subject}
	all := []cdx.Component{component(cdx.ComponentTypeLibrary, "std", strings.TrimPrefix(info.GoVersion, "go"), "")}
	for _, m := range info.Deps {
		used := m
		if m.Replace != nil {
			used = m.Replace
		}
		all = append(all, component(cdx.ComponentTypeLibrary, used.Path, used.Version, used.Sum))
	}
	slices.SortFunc(all, func(a, b cdx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	refs := make([]string, 0, len(all))
	for i := range all {
		refs = append(refs, all[i].BOMRef)
	}
	bom.Components, bom.Dependencies = &all, &[]cdx.Dependency{{Ref: subject.BOMRef, Dependencies: &refs}}
	return bom
}

// component returns a module. sum is that of go.sum, which is no hash of a file: it is a property.
func component(kind cdx.ComponentType, path, version, sum string) cdx.Component {
	purl := fmt.Sprintf("pkg:golang/%s@%s", path, version)
	c := cdx.Component{BOMRef: purl, Type: kind, Name: path, Version: version, PackageURL: purl}
	if sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go:sum", Value: sum}}
	}
	return c
}
