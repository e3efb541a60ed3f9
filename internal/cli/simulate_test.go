package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

func TestSimulateReportsByItsStatus(t *testing.T) {
	t.Parallel()
	scenarios := filepath.Join("..", "decision", "simulate", "testdata")
	cases := map[string]struct {
		args           []string
		status         int
		stdout, stderr string // parts
	}{
		"every pod finds a place": {[]string{"--scenario", filepath.Join(scenarios, "p2-tiny-cluster.json.gz")}, 0, " would be launched for 25 pods, at ", ""},
		"a plan as a file":        {[]string{"--scenario", filepath.Join(scenarios, "p2-tiny-cluster.json.gz"), "-o", "json"}, 0, `{"format":"kplan/1","scenario":"p2-tiny-cluster"`, ""},
		"a pod is refused":        {[]string{"-f", filepath.Join("..", "..", "examples", "kwok")}, 3, "1 pod of default/nowhere: pool general: no instance type has", ""},
		"pods that nothing can hold": {
			[]string{"-f", filepath.Join("testdata", "giants.yaml")},
			3,
			"1 pod of default/two-halves: pool general: no instance type holds 2Ei or more memory; the largest, m-256x-", "",
		},
		"EC2 node classes have EC2's types": {[]string{"-f", filepath.Join("..", "..", "examples", "aws")}, 3, "c6gd.2xlarge", ""},
		"another catalog than the classes'": {[]string{"-f", filepath.Join("..", "..", "examples", "aws"), "--catalog", "kwok"}, 3, "c-", ""},
		"a class that nothing is known of":  {[]string{"-f", filepath.Join("testdata", "azure.yaml")}, 2, "", "azure.yaml: document 1 (line 1): NodePool general: this program does not know what node classes AKSNodeClass of karpenter.azure.com offer"},
		"a file that is not there":          {[]string{"--scenario", "no-such.json"}, 2, "", "dovetail: open no-such.json: no such file or directory\n"},
		"a file of another kind":            {[]string{"--scenario", "simulate.go"}, 2, "", "dovetail: simulate.go:1: "},
		"a catalog that there is not":       {[]string{"-f", "simulate.go", "--catalog", "moon"}, 2, "", `there is no catalog "moon"`},
		"nothing to simulate":               {nil, 2, "", "give either --scenario or -f or --live (see dovetail simulate --help)"},
		"a form that there is not":          {[]string{"--scenario", "x", "-o", "xml"}, 2, "", `--output is "xml", must be table or json`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			status := Main(t.Context(), append([]string{"simulate"}, tc.args...), &stdout, &stderr)
			if status != tc.status || !strings.Contains(stdout.String(), tc.stdout) || !strings.Contains(stderr.String(), tc.stderr) {
				t.Errorf("status %d, want %d; it printed\n%s%s", status, tc.status, stdout.String(), stderr.String())
			}
		})
	}
}
