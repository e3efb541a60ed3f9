package api

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

var nodeClaim = kind{
	crd:      "karpenter.sh_nodeclaims.yaml",
	resource: karpenterv1.GroupVersion.WithResource("nodeclaims"),
	base: `
apiVersion: karpenter.sh/v1
kind: NodeClaim
spec:
  requirements: []
  nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
`,
	entries: both(nodeEntries("spec"), map[string]entry{
		"spec required":               {accept: "{taints: []}", refuse: "null", why: "Required"},
		"spec rule spec is immutable": {update: true, from: "{expireAfter: 1h}", accept: "{expireAfter: 1h}", refuse: "{expireAfter: 2h}"},
		"spec.resources.requests{} pattern": {
			at: "spec.resources.requests", field: "spec.resources.requests.cpu",
			accept: "{cpu: 1500m, memory: 1Gi}", refuse: "{cpu: some}", why: "should match",
		},
		"spec.nodeClassRef required": {accept: "{name: other}", refuse: "null", why: "Required"},
		"spec.nodeClassRef.group rule nodeClassRef.group is immutable": {
			update: true, from: "a.example", accept: "a.example", refuse: "b.example",
		},
		"spec.nodeClassRef.kind rule nodeClassRef.kind is immutable": {
			update: true, from: "A", accept: "A", refuse: "B",
		},
	}),
}

// TestNodeClaimTakesThePoolAsARequirement checks the one key that a claim may
// require and a pool may not.
func TestNodeClaimTakesThePoolAsARequirement(t *testing.T) {
	t.Parallel()
	u := with(t, nodeClaim.object(t, "of-a-pool"), "spec.requirements", "[{key: karpenter.sh/nodepool, operator: In, values: [a]}]")
	if _, err := nodeClaim.client(t).Create(t.Context(), u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Error(err)
	}
}

func TestNodeClaimConditionReasons(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		condition string
		refused   bool
	}{
		"a reason and a message may be absent": {condition: "{type: Ready, status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z'}"},
		"a reason may be empty":                {condition: "{type: Ready, status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z', reason: '', message: ''}"},
		"a reason may be a word":               {condition: "{type: Ready, status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z', reason: NodeNotFound, message: ''}"},
		"a reason may not be a sentence":       {condition: "{type: Ready, status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z', reason: no node}", refused: true},
		"a transition time may not be absent":  {condition: "{type: Ready, status: 'True'}", refused: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := nodeClaim.object(t, "")
			base.SetGenerateName("condition-")
			u, err := nodeClaim.client(t).Create(t.Context(), base, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = nodeClaim.client(t).UpdateStatus(t.Context(), with(t, u, "status.conditions", "["+tt.condition+"]"), metav1.UpdateOptions{})
			if (err != nil) != tt.refused {
				t.Errorf("%s: %v, want refused %v", tt.condition, err, tt.refused)
			}
		})
	}
}

// TestDurationsSurviveTheServer checks that what is read into Go and written back
// is what the user wrote.
func TestDurationsSurviveTheServer(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"90m", "Never", "1h0m"} {
		u := with(t, nodePool.object(t, "duration"), "spec", "{template: {spec: {expireAfter: "+text+"}}, disruption: {consolidateAfter: "+text+"}}")
		got, err := nodePool.client(t).Create(t.Context(), u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			t.Fatal(err)
		}
		np := typed[karpenterv1.NodePool](t, got)
		for field, d := range map[string]karpenterv1.NillableDuration{
			"expireAfter": np.Spec.Template.Spec.ExpireAfter, "consolidateAfter": np.Spec.Disruption.ConsolidateAfter,
		} {
			want, err := time.ParseDuration(text)
			if d.String() != text || (err == nil) != (d.Duration != nil) || (err == nil && *d.Duration != want) {
				t.Errorf("%s %s is read as %v", field, text, d)
			}
		}
	}
}
