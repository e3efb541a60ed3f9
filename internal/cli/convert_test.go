package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// takesLong is the line by which a command says that it takes long, as anything does beside other tests.
var takesLong = regexp.MustCompile(`(?m)^dovetail: .*, for \d+\S* now\n`)

// run calls the command line, and returns what it said but that it takes long.
func run(t testing.TB, args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = Main(t.Context(), args, &out, &errs)
	return status, out.String(), takesLong.ReplaceAllString(errs.String(), "")
}

func write(t testing.TB, file, text string) string {
	path := filepath.Join(t.TempDir(), file)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const templateOfA = `
apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata: {name: a}
spec: {launchTemplate: mine}
`

func TestConvertCommand(t *testing.T) {
	t.Parallel()
	beta := `
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: a}
spec: {template: {spec: {requirements: [], nodeClassRef: {name: b}}}}
`
	for name, tt := range map[string]struct {
		text           string
		args           []string
		status         int
		stdout, stderr string
	}{
		"v1beta1": {beta, []string{"convert", "--cloud-provider", "kwok"}, 0, `---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: a
spec:
  template:
    spec:
      nodeClassRef:
        group: karpenter.kwok.sh
        kind: KWOKNodeClass
        name: b
      requirements: []
`, "NodePool a: guessed: spec.template.spec.nodeClassRef: kind KWOKNodeClass of group karpenter.kwok.sh: it did not say\n"},
		"one that cannot be": {templateOfA, []string{"convert"}, 3, "", "AWSNodeTemplate a: refused: spec.launchTemplate: v1 makes launch templates of its own"},
		"no YAML":            {"a: [", []string{"convert"}, 2, "", "dovetail: PATH: document 1: yaml: "},
		"nothing":            {"# nothing\n", []string{"convert"}, 2, "", "dovetail: no objects there"},
		"another provider":   {beta, []string{"convert", "--cloud-provider", "gcp"}, 2, "", `dovetail: --cloud-provider is "gcp", must be aws or kwok (see dovetail convert --help)`},
		"scan": {
			`{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: d}, spec: {nodeSelector: {karpenter.sh/provisioner-name: a}}}`,
			[]string{"convert", "--scan"},
			0,
			"Pod d/p: changed: spec.nodeSelector.karpenter.sh/nodepool: was karpenter.sh/provisioner-name\n", "",
		},
		"an older kind in simulate": {beta, []string{"simulate"}, 2, "", "dovetail: PATH: document 1 (line 1): NodePool of karpenter.sh/v1beta1 is an older version: dovetail convert -f PATH writes it as v1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := write(t, "in.yaml", tt.text)
			status, stdout, stderr := run(t, append(tt.args, "-f", path)...)
			if status != tt.status || stdout != tt.stdout || !strings.HasPrefix(strings.ReplaceAll(stderr, path, "PATH"), tt.stderr) || (tt.stderr == "") != (stderr == "") {
				t.Errorf("status %d, want %d; on standard error %q, want %q; output (-want +got):\n%s", status, tt.status, stderr, tt.stderr, cmp.Diff(tt.stdout, stdout))
			}
		})
	}
}

// pools are one NodePool in three versions, and what of it is chosen at random.
type pools struct {
	arch, capacity, limits, taint, label, types string
}

func (p *pools) requirements() string {
	return fmt.Sprintf("[{key: kubernetes.io/arch, operator: In, values: [%s]}, {key: karpenter.sh/capacity-type, operator: In, values: [%s]}, "+
		"{key: kubernetes.io/os, operator: In, values: [linux]}%s]", p.arch, p.capacity, p.types)
}

func (p *pools) v1() string {
	return fmt.Sprintf(`
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: a}
spec:
  limits: {cpu: %s}
  template:
    metadata: {labels: {team: %s}}
    spec:
      taints: %s
      requirements: %s
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      expireAfter: 100h
`, p.limits, p.label, p.taint, p.requirements())
}

func (p *pools) v1beta1() string {
	return fmt.Sprintf(`
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: a}
spec:
  limits: {cpu: %s}
  template:
    metadata: {labels: {team: %s}}
    spec:
      taints: %s
      requirements: %s
      nodeClassRef: {name: default}
  disruption: {consolidationPolicy: WhenUnderutilized, expireAfter: 100h}
`, p.limits, p.label, p.taint, p.requirements())
}

func (p *pools) v1alpha5() string {
	return fmt.Sprintf(`
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: a}
spec:
  limits: {resources: {cpu: %s}}
  labels: {team: %s}
  taints: %s
  requirements: %s
  providerRef: {name: default}
  ttlSecondsUntilExpired: 360000
`, p.limits, p.label, p.taint, p.requirements())
}

// TestConvertedPoolsPlanTheSame: what is planned for pods with a converted pool is what is planned
// with the pool as a person writes it in v1.
func TestConvertedPoolsPlanTheSame(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pods := filepath.Join(dir, "pods.yaml")
	rapid.Check(t, func(r *rapid.T) {
		one := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(r, name) }
		p := &pools{
			arch: one("arch", "amd64", "arm64", "amd64, arm64"), capacity: one("capacity", "spot", "on-demand", "spot, on-demand"),
			limits: one("limits", "1", "20", "1000"), taint: one("taint", "[]", "[{key: t, effect: NoSchedule}]"), label: one("label", "a", "b"),
			types: one("types", "", ", {key: karpenter.kwok.sh/instance-family, operator: In, values: [c]}"),
		}
		if err := os.WriteFile(pods, fmt.Appendf(nil, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: %d
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {team: a}
      containers: [{name: c, image: i, resources: {requests: {cpu: %s}}}]
`, rapid.IntRange(1, 30).Draw(r, "replicas"), one("cpu", "100m", "1", "7")), 0o600); err != nil {
			r.Fatal(err)
		}
		simulated := func(file, text string, convert ...string) string {
			path := filepath.Join(dir, file)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				r.Fatal(err)
			}
			if len(convert) > 0 {
				status, stdout, stderr := run(t, append([]string{"convert", "-f", path}, convert...)...)
				if status != 0 {
					r.Fatalf("convert: status %d: %s", status, stderr)
				}
				if err := os.WriteFile(path, []byte(stdout), 0o600); err != nil {
					r.Fatal(err)
				}
			}
			status, stdout, stderr := run(t, "simulate", "-f", path, "-f", pods)
			if status == 1 || status == 2 {
				r.Fatalf("simulate: status %d: %s", status, stderr)
			}
			return untimed(path, stdout)
		}
		want := simulated("v1.yaml", p.v1())
		for file, got := range map[string]string{
			"v1beta1":  simulated("v1beta1.yaml", p.v1beta1(), "--cloud-provider=aws"),
			"v1alpha5": simulated("v1alpha5.yaml", p.v1alpha5(), "--ignore-defaults"),
		} {
			if diff := cmp.Diff(want, got); diff != "" {
				r.Fatalf("the plan of %s (-v1 +%s):\n%s", file, file, diff)
			}
		}
	})
}

// untimed leaves out of an answer which file it is about, and how long it took.
func untimed(path, table string) string {
	var kept []string
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "planned in") {
			kept = append(kept, strings.ReplaceAll(line, path, "POOLS"))
		}
	}
	return strings.Join(kept, "")
}
