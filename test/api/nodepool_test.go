package api

import (
	"fmt"
	"strings"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

var nodePool = kind{
	crd:      "karpenter.sh_nodepools.yaml",
	resource: karpenterv1.GroupVersion.WithResource("nodepools"),
	base: `
apiVersion: karpenter.sh/v1
kind: NodePool
spec:
  template:
    spec:
      requirements: []
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
`,
	entries: both(nodeEntries("spec.template.spec"), poolEntries(), labelEntries(), disruptionEntries(), map[string]entry{
		"spec.template.spec.requirements rule label 'karpenter.sh/nodepool' is restricted": {
			accept: "[{key: karpenter.sh/capacity-type, operator: Exists}]", refuse: "[{key: karpenter.sh/nodepool, operator: Exists}]",
		},
		"spec.template.spec.nodeClassRef.group rule nodeClassRef.group is immutable": {update: true, from: "a.example", accept: "a.example", refuse: "b.example"},
		"spec.template.spec.nodeClassRef.kind rule nodeClassRef.kind is immutable":   {update: true, from: "A", accept: "A", refuse: "B"},
	}),
}

func poolEntries() map[string]entry {
	const (
		fixed     = "spec rule spec.replicas cannot be added or removed: a NodePool stays static or dynamic for life"
		onlyNodes = "spec rule spec.limits of a static NodePool (one with replicas) may hold only 'nodes'"
		noWeight  = "spec rule spec.weight is not supported on a static NodePool (one with replicas)"
	)
	return map[string]entry{
		"spec required":               {accept: "{weight: 1}", refuse: "null", why: "Required"},
		"spec.template required":      {accept: "{metadata: {}}", refuse: "null", why: "Required"},
		"spec.template.spec required": {accept: "{taints: []}", refuse: "null", why: "Required"},
		"spec.weight minimum":         {accept: "1", refuse: "0", why: "greater than or equal to 1"},
		"spec.weight maximum":         {accept: "100", refuse: "101", why: "less than or equal to 100"},
		"spec.replicas minimum":       {accept: "0", refuse: "-1", why: "greater than or equal to 0"},
		"spec.limits{} pattern":       {at: "spec.limits", field: "spec.limits.cpu", accept: "{cpu: 1500m, nodes: 3, memory: 1.5Gi}", refuse: "{cpu: 1E2000000000}", why: "should match"},
		fixed:                         {update: true, from: "{replicas: 1}", accept: "{replicas: 2}", refuse: "{replicas: null}"},
		onlyNodes:                     {accept: "{replicas: 1, limits: {nodes: 3}}", refuse: "{replicas: 1, limits: {nodes: 3, cpu: 4}}"},
		noWeight:                      {accept: "{replicas: 1}", refuse: "{replicas: 1, weight: 5}"},
	}
}

func labelEntries() map[string]entry {
	const at = "spec.template.metadata.labels"
	labels := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "k%d: v\n", i)
		}
		return b.String()
	}
	return map[string]entry{
		at + " maxProperties": {accept: labels(100), refuse: labels(101), why: "at most 100"},
		at + "{} maxLength":   {at: at, field: at + ".k", accept: "{k: " + strings.Repeat("v", 63) + "}", refuse: "{k: " + strings.Repeat("v", 64) + "}", why: "Too long"},
		at + "{} pattern":     {at: at, field: at + ".k", accept: "{k: '', l: a_b.c}", refuse: "{k: a b}", why: "should match"},
		at + " rule label 'karpenter.sh/nodepool' is restricted":             {accept: "{example.com/nodepool: a}", refuse: "{karpenter.sh/nodepool: a}"},
		at + " rule label 'kubernetes.io/hostname' is restricted":            {accept: "{example.com/hostname: a}", refuse: "{kubernetes.io/hostname: a}"},
		at + " rule labels in the domain 'karpenter.k8s.aws' are restricted": {accept: "{karpenter.k8s.aws/instance-tenancy: dedicated}", refuse: "{karpenter.k8s.aws/x: a}"},
		at + " rule labels in the domain 'karpenter.sh' are restricted":      {accept: "{karpenter.sh/capacity-type: spot, karpenter.kwok.sh/x: a}", refuse: "{foo.karpenter.sh/x: a}"},
	}
}

func disruptionEntries() map[string]entry {
	const at = "spec.disruption"
	const budgets, first = at + ".budgets", at + ".budgets[0]"
	const paired = budgets + " rule budgets must have both 'schedule' and 'duration', or neither"
	scheduled := func(schedule, duration string) string {
		return fmt.Sprintf("[{nodes: '0', schedule: '%s', duration: %s}]", schedule, duration)
	}
	return map[string]entry{
		at + " default":                     {accept: "{consolidateAfter: 0s, consolidationPolicy: WhenEmptyOrUnderutilized, budgets: [{nodes: 10%}]}"},
		at + ".expireAfter pattern":         {accept: "Never", refuse: "1d", why: "should match"},
		at + ".consolidateAfter default":    {at: at, from: "{budgets: [], consolidationPolicy: WhenEmpty}", accept: "{budgets: [], consolidationPolicy: WhenEmpty, consolidateAfter: 0s}"},
		at + ".consolidateAfter pattern":    {accept: "Never", refuse: "1d", why: "should match"},
		at + ".consolidationPolicy default": {accept: "WhenEmptyOrUnderutilized"},
		at + ".consolidationPolicy enum":    {accept: "WhenUnderutilized", refuse: "Always", why: `supported values: "WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced", "WhenUnderutilized"`},
		budgets + " default":                {accept: "[{nodes: 10%}]"},
		budgets + " maxItems":               {accept: list(50, same("{nodes: '1'}")), refuse: list(51, same("{nodes: '1'}")), why: "Too many"},
		paired:                              {accept: scheduled("@daily", "1h"), refuse: "[{nodes: '0', duration: 1h}]"},
		budgets + "[].nodes default":        {at: budgets, from: "[{reasons: [Empty]}]", accept: "[{reasons: [Empty], nodes: 10%}]"},
		budgets + "[].nodes pattern":        {at: budgets, field: first + ".nodes", accept: "[{nodes: 100%}, {nodes: '250'}, {nodes: 0%}]", refuse: "[{nodes: 101%}]", why: "should match"},
		budgets + "[].reasons maxItems":     {at: budgets, field: first + ".reasons", accept: "[{reasons: [Empty, Drifted, Underutilized]}]", refuse: "[{reasons: " + list(51, same("Empty")) + "}]", why: "Too many"},
		budgets + "[].reasons set":          {at: budgets, field: first + ".reasons[1]", accept: "[{reasons: [Empty, Drifted]}]", refuse: "[{reasons: [Empty, Empty]}]", why: "Duplicate"},
		budgets + "[].reasons[] enum":       {at: budgets, field: first + ".reasons[0]", accept: "[{reasons: [Empty, Drifted, Underutilized, Unhealthy]}]", refuse: "[{reasons: [Expired]}]", why: `supported values: "Underutilized", "Empty", "Drifted", "Unhealthy"`},
		budgets + "[].schedule pattern":     {at: budgets, field: first + ".schedule", accept: scheduled("0 9 * * mon-fri", "8h"), refuse: scheduled("often", "8h"), why: "should match"},
		budgets + "[].duration pattern":     {at: budgets, field: first + ".duration", accept: scheduled("@daily", "1h30m0s"), refuse: scheduled("@daily", "30s"), why: "should match"},
	}
}
