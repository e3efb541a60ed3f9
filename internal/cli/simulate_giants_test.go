package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// TestSimulateRefusesGiants gives simulate a pod that nothing in EC2's catalog can hold, and an
// ordinary one. The giant is refused with the largest type, and the ordinary pod gets its node.
func TestSimulateRefusesGiants(t *testing.T) {
	t.Parallel()
	for file, verdict := range map[string]string{
		"memory.yaml":           "no instance type holds 2Ei or more memory; the largest, u7in-32tb.224xlarge, has 29.5Ti for pods",
		"memory-more.yaml":      "no instance type holds 2Ei or more memory; the largest, u7in-32tb.224xlarge, has 29.5Ti for pods",
		"cpu.yaml":              "no instance type holds 2305843009213694 or more cpu; the largest, u7i-12tb.224xlarge, has 893 for pods",
		"storage.yaml":          "no instance type holds 2Ei or more ephemeral-storage; the largest, a1.2xlarge, has 17Gi for pods",
		"devices.yaml":          "no instance type holds 2305843009213693951 or more nvidia.com/gpu; the largest, g4dn.metal, has 8 for pods",
		"unknown-resource.yaml": "no instance type has example.com/unicorn for pods",
		"init.yaml":             "no instance type holds 2Ei or more memory; the largest, u7in-32tb.224xlarge, has 29.5Ti for pods",
		"overhead.yaml":         "no instance type holds 2Ei or more memory; the largest, u7in-32tb.224xlarge, has 29.5Ti for pods",
		"large-but-sane.yaml":   "no instance type holds 48Ti memory; the largest, u7in-32tb.224xlarge, has 29.5Ti for pods",
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			args := []string{"simulate", "--catalog", "ec2"}
			for _, f := range []string{"pool.yaml", "ordinary.yaml", file} {
				args = append(args, "-f", filepath.Join("testdata", "giants", f))
			}
			var stdout, stderr bytes.Buffer
			status := Main(t.Context(), args, &stdout, &stderr)
			if status != statusRefused {
				t.Errorf("exit status %d, want %d", status, statusRefused)
			}
			for _, want := range []string{"1 node would be launched for 1 pod,", "1 pod of default/giant: pool default: " + verdict + "\n"} {
				if !strings.Contains(stdout.String(), want) {
					t.Errorf("it does not say %q", want)
				}
			}
			if t.Failed() {
				t.Logf("it printed\n%s%s", stdout.String(), stderr.String())
			}
		})
	}
}
