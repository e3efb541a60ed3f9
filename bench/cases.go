package main

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/bench/generate"
)

// testCase is one scenario to be solved by one side or both.
type testCase struct {
	name, path string
	// karpenter says that Karpenter is to solve it too.
	karpenter bool
}

// Quick runs leave out Karpenter's longest: scenarios of more pods than this, but for the
// one that the first figure on the page is about.
const (
	quickPodsMax = 2000
	headline     = "p1a-diverse-aws-5000"
)

// nodes is how many there are in the scenario that shows how long consolidation takes.
const nodes = 5000

// gather returns the scenarios to solve, with those that are generated written to the
// directory.
func gather(s settings, dir string) ([]testCase, error) {
	files, err := filepath.Glob(filepath.Join(s.scenarios, "p[123]*.json.gz"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	var cases []testCase
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".json.gz")
		long := slices.Contains([]string{
			"p1b-plain-aws-5000", "p1b-plain-aws-20000", "p1c-deploys-aws-10000",
			"p3-consolidate-100-4xl", "p3-consolidate-500-4xl", "p3-consolidate-1000", "p3-consolidate-2000-4xl",
		}, name)
		if s.only.MatchString(name) {
			cases = append(cases, testCase{name, path, !s.quick || !long})
		}
	}
	if err := generate.WriteCatalog(dir); err != nil {
		return nil, err
	}
	for _, f := range generate.Families() {
		for _, pods := range sizes(f) {
			if !s.only.MatchString(f.Scenario(pods, s.seed).Name) {
				continue
			}
			path, err := generate.Write(dir, f, pods, s.seed)
			if err != nil {
				return nil, err
			}
			cases = append(cases, testCase{f.Scenario(pods, s.seed).Name, path, !s.quick || pods <= quickPodsMax})
		}
	}
	if name := generate.NodesName(nodes); s.only.MatchString(name) {
		path, err := generate.WriteNodes(dir, nodes, s.seed)
		if err != nil {
			return nil, err
		}
		cases = append(cases, testCase{name, path, !s.quick})
	}
	if name := generate.RecreatedName; s.only.MatchString(name) {
		path, err := generate.WriteRecreated(dir, s.seed)
		if err != nil {
			return nil, err
		}
		cases = append(cases, testCase{name, path, !s.quick})
	}
	if len(cases) == 0 && !s.only.MatchString(weekName) {
		return nil, errors.New("no scenario has such a name")
	}
	return cases, nil
}

// sizes returns how many pods a family is solved with.
func sizes(f generate.Family) []int {
	if f.Anything {
		return []int{1000, 50000}
	}
	return []int{100, 1000, 10000, 50000}
}
