package translate_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func container(cpu string) corev1.Container {
	return corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}
}

func TestPodRequestsCountAsTheSchedulerDoes(t *testing.T) {
	t.Parallel()
	always := corev1.ContainerRestartPolicyAlways
	sidecar := container("300m")
	sidecar.RestartPolicy = &always
	podLevel := corev1.PodSpec{Containers: []corev1.Container{container("1")}, Resources: &corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("5")},
	}}
	for name, tc := range map[string]struct {
		spec corev1.PodSpec
		cpu  int64
	}{
		"containers add up":                         {corev1.PodSpec{Containers: []corev1.Container{container("1"), container("500m")}}, 1500},
		"the largest init container counts alone":   {corev1.PodSpec{Containers: []corev1.Container{container("1")}, InitContainers: []corev1.Container{container("2"), container("3")}}, 3000},
		"sidecars add to containers":                {corev1.PodSpec{Containers: []corev1.Container{container("1")}, InitContainers: []corev1.Container{sidecar}}, 1300},
		"sidecars run beside later init containers": {corev1.PodSpec{Containers: []corev1.Container{container("1")}, InitContainers: []corev1.Container{sidecar, container("2")}}, 2300},
		"overhead comes on top":                     {corev1.PodSpec{Containers: []corev1.Container{container("1")}, Overhead: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}}, 1250},
		"the pod's own request stands for all":      {podLevel, 5000},
		"nothing is asked for":                      {corev1.PodSpec{Containers: []corev1.Container{{}}}, 0},
		"less than nothing is nothing":              {corev1.PodSpec{Containers: []corev1.Container{container("-4")}}, 0},
		"more than can be counted is the most":      {corev1.PodSpec{Containers: []corev1.Container{container("9Ei"), container("9Ei")}}, quantity.Max},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := translate.PodRequests(&corev1.Pod{Spec: tc.spec})
			if got[quantity.CPU] != tc.cpu || got[quantity.Pods] != 1 {
				t.Errorf("requests %v, want %dm cpu and one pod", got, tc.cpu)
			}
		})
	}
}

func TestPodConstraintsRefuseWhatNoNodeOfOursCanBe(t *testing.T) {
	t.Parallel()
	v := translate.NewVocabulary([]string{"karpenter.kwok.sh/instance-cpu"}, []string{"karpenter.kwok.sh"})
	for name, tc := range map[string]struct{ key, value, want string }{
		"a label of everybody's":          {"team", "red", ""},
		"a well-known label":              {corev1.LabelTopologyZone, "a", ""},
		"the provider's well-known label": {"karpenter.kwok.sh/instance-cpu", "4", ""},
		"the provider's domain":           {"karpenter.kwok.sh/other", "4", "nodeSelector: label karpenter.kwok.sh/other is restricted"},
		"our domain":                      {"karpenter.sh/other", "4", "nodeSelector: label karpenter.sh/other is restricted"},
		"below our domain":                {"x.karpenter.sh/other", "4", "nodeSelector: label x.karpenter.sh/other is restricted"},
		"one node by its name":            {corev1.LabelHostname, "n1", "nodeSelector: label kubernetes.io/hostname is restricted"},
		"kubernetes' domain":              {"node-restriction.kubernetes.io/x", "4", ""},
		"no label value":                  {"team", "red and blue", `nodeSelector: team: "red and blue" is no label value`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sh := translate.PodConstraints(&corev1.Pod{Spec: corev1.PodSpec{NodeSelector: map[string]string{tc.key: tc.value}}}, v)
			if sh.Invalid != tc.want {
				t.Errorf("%s=%s: %q, want %q", tc.key, tc.value, sh.Invalid, tc.want)
			}
		})
	}
}

// TestNoNodeIsRightForAPodThatClaimsDevices: a node launched for it might not have them.
func TestNoNodeIsRightForAPodThatClaimsDevices(t *testing.T) {
	t.Parallel()
	const refused = "the pod needs ResourceClaims, and no node is launched or removed for a pod that does"
	gpu := "gpu"
	for name, tc := range map[string]struct {
		pod  corev1.Pod
		want string
	}{
		"none":       {corev1.Pod{}, ""},
		"a claim":    {corev1.Pod{Spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: gpu, ResourceClaimName: &gpu}}}}, refused},
		"a template": {corev1.Pod{Spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: gpu, ResourceClaimTemplateName: &gpu}}}}, refused},
		"a claim that kube-scheduler made for an extended resource": {
			corev1.Pod{Status: corev1.PodStatus{ExtendedResourceClaimStatus: &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: gpu}}}, refused,
		},
	} {
		if got := translate.PodConstraints(&tc.pod, translate.NewVocabulary(nil, nil)).Invalid; got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
		if same := translate.ConstraintsKey(&tc.pod) == translate.ConstraintsKey(&corev1.Pod{}); same != (tc.want == "") {
			t.Errorf("%s: alike to a pod without: %t", name, same)
		}
	}
}

// TestEmptyTermsMatchNothing: kube-scheduler ignores them, and a pod that has no others
// fits nowhere.
func TestEmptyTermsMatchNothing(t *testing.T) {
	t.Parallel()
	team := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "team", Operator: corev1.NodeSelectorOpIn, Values: []string{"red"}}}}
	constraints := func(terms ...corev1.NodeSelectorTerm) *cluster.Constraints {
		p := &corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
		}}}}
		return translate.PodConstraints(p, translate.NewVocabulary(nil, nil))
	}
	if sh := constraints(corev1.NodeSelectorTerm{}, team); len(sh.Terms) != 1 || !sh.Terms[0].Equal(label.Requirements{"team": label.In("red")}) || sh.Invalid != "" {
		t.Errorf("an empty term beside another: %v, %q", sh.Terms, sh.Invalid)
	}
	if sh := constraints(corev1.NodeSelectorTerm{}); sh.Invalid == "" {
		t.Errorf("an empty term alone is let through: %v", sh.Terms)
	}
}

func TestOldLabelNamesAreReadAsNewOnes(t *testing.T) {
	t.Parallel()
	sh := translate.PodConstraints(&corev1.Pod{Spec: corev1.PodSpec{NodeSelector: map[string]string{
		"failure-domain.beta.kubernetes.io/zone": "a", "beta.kubernetes.io/arch": "arm64", "beta.kubernetes.io/instance-type": "big",
	}}}, translate.NewVocabulary(nil, nil))
	want := label.Requirements{corev1.LabelTopologyZone: label.In("a"), corev1.LabelArchStable: label.In("arm64"), label.InstanceType: label.In("big")}
	if !sh.Terms[0].Equal(want) {
		t.Errorf("got %s, want %s", sh.Terms[0], want)
	}
}

func requirement(key string, op corev1.NodeSelectorOperator, values ...string) karpenterv1.NodeSelectorRequirementWithMinValues {
	return karpenterv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: op, Values: values}
}

// TestRequirementsSurviveTheAPI writes requirements down and reads them again.
func TestRequirementsSurviveTheAPI(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]label.Requirement{
		"a list":                   label.In("a", "b"),
		"all but some":             label.NotIn("a"),
		"any":                      label.Exists(),
		"none":                     label.DoesNotExist(),
		"from":                     label.Between(4, 1<<62).Intersect(label.Between(4, 1<<62)),
		"from and to":              label.Between(4, 8),
		"from and to, all but one": label.Between(4, 8).Intersect(label.NotIn("5")),
		"any but some":             label.Exists().Intersect(label.NotIn("a")),
		"a list with minValues":    label.In("a", "b").WithMinValues(2),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := translate.RequirementList(label.Requirements{"k": r})
			got, err := translate.Requirements(list)
			if err != nil || !got["k"].Equal(r) {
				t.Errorf("%s became %v, then %s (%v)", r, list, got["k"], err)
			}
		})
	}
}

func TestRequirementsNameWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	got, err := translate.Requirements([]karpenterv1.NodeSelectorRequirementWithMinValues{
		requirement("good", corev1.NodeSelectorOpIn, "a"), requirement("bad", corev1.NodeSelectorOpGt, "x"),
	})
	if err == nil || err.Error() != `requirement bad: operator Gt needs a non-negative integer, has "x"` {
		t.Errorf("error %v", err)
	}
	if !got.Equal(label.Requirements{"good": label.In("a")}) {
		t.Errorf("what could be read: %s", got)
	}
}

func testPool() *karpenterv1.NodePool {
	np := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general", UID: "pool-uid", Generation: 3}}
	np.Spec.Template.Labels = map[string]string{"team": "red"}
	np.Spec.Template.Annotations = map[string]string{"note": "x"}
	np.Spec.Template.Spec.NodeClassRef = &karpenterv1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "default"}
	np.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, ObservedGeneration: 3}}
	return np
}

func TestPoolReadiness(t *testing.T) {
	t.Parallel()
	deleted, replicas := metav1.NewTime(noon), int64(3)
	for name, tc := range map[string]struct {
		change func(*karpenterv1.NodePool)
		want   string
	}{
		"ready":                          {func(*karpenterv1.NodePool) {}, ""},
		"judged for an older generation": {func(np *karpenterv1.NodePool) { np.Generation = 4 }, "not ready: not checked since it changed"},
		"not judged":                     {func(np *karpenterv1.NodePool) { np.Status.Conditions = nil }, "not ready: not checked yet"},
		"going":                          {func(np *karpenterv1.NodePool) { np.DeletionTimestamp = &deleted }, "it is being deleted"},
		"labels against requirements": {func(np *karpenterv1.NodePool) {
			np.Spec.Template.Spec.Requirements = []karpenterv1.NodeSelectorRequirementWithMinValues{{Key: "team", Operator: corev1.NodeSelectorOpIn, Values: []string{"blue"}}}
		}, "no node can be what its requirements and labels say of team"},
		"requirements without a number": {func(np *karpenterv1.NodePool) {
			np.Spec.Template.Spec.Requirements = []karpenterv1.NodeSelectorRequirementWithMinValues{
				{Key: "rack", Operator: "Gte", Values: []string{"5"}}, {Key: "rack", Operator: "Lte", Values: []string{"5"}}, {Key: "rack", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"5"}},
			}
		}, "no node can be what its requirements and labels say of rack"},
		"static": {func(np *karpenterv1.NodePool) { np.Spec.Replicas = &replicas }, "it has a fixed number of replicas"},
		"not ready": {func(np *karpenterv1.NodePool) {
			np.Status.Conditions[0] = metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, ObservedGeneration: 3, Reason: "UnhealthyDependents", Message: "NodeClassReady=False"}
		}, "not ready: UnhealthyDependents NodeClassReady=False"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			np := testPool()
			tc.change(np)
			pool := translate.Pool(np, nil, noon)
			if got := pool.NotForPods(); got != tc.want || pool.Replicas != translate.Replicas(np) {
				t.Errorf("not for pods %q, want %q; %d replicas", got, tc.want, pool.Replicas)
			}
		})
	}
}

func TestBudgetsAreOpenWhenTheirScheduleSaysSo(t *testing.T) {
	t.Parallel()
	schedule, hour := "0 11 * * *", karpenterv1.Duration{Duration: 2 * time.Hour}
	for name, tc := range map[string]struct {
		budget karpenterv1.Budget
		at     time.Time
		want   cluster.Budget
	}{
		"always":                  {karpenterv1.Budget{Nodes: "10%"}, noon, cluster.Budget{Nodes: 10, Percent: true, Active: true}},
		"a count":                 {karpenterv1.Budget{Nodes: "3"}, noon, cluster.Budget{Nodes: 3, Active: true}},
		"within its window":       {karpenterv1.Budget{Nodes: "0", Schedule: &schedule, Duration: &hour}, noon, cluster.Budget{Active: true, Scheduled: true}},
		"at its first moment":     {karpenterv1.Budget{Nodes: "0", Schedule: &schedule, Duration: &hour}, noon.Add(-time.Hour), cluster.Budget{Active: true, Scheduled: true}},
		"after its window":        {karpenterv1.Budget{Nodes: "0", Schedule: &schedule, Duration: &hour}, noon.Add(2 * time.Hour), cluster.Budget{Scheduled: true}},
		"in another time zone":    {karpenterv1.Budget{Nodes: "0", Schedule: &schedule, Duration: &hour}, noon.In(time.FixedZone("x", 5*3600)), cluster.Budget{Active: true, Scheduled: true}},
		"unreadable: allows none": {karpenterv1.Budget{Nodes: "many"}, noon, cluster.Budget{Active: true, Invalid: `"many" is neither a number of nodes nor a percentage`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			np := testPool()
			np.Spec.Disruption.Budgets = []karpenterv1.Budget{tc.budget}
			if diff := cmp.Diff([]cluster.Budget{tc.want}, translate.Pool(np, nil, tc.at).Budgets); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestClaimOfALaunch checks what users and other tools read off a claim.
func TestClaimOfALaunch(t *testing.T) {
	t.Parallel()
	np := testPool()
	pool := translate.Pool(np, nil, noon)
	l := &plan.Launch{
		Pool: "general", Requests: quantity.List{quantity.CPU: 1500, quantity.Pods: 2},
		Requirements: pool.Requirements.With(label.InstanceType, label.In("big")).With("crew", label.In("b", "a")).
			With("rack", label.Between(7, 9)).With("lab", label.NotIn("0")).With("none", label.DoesNotExist()).With(label.Zone, label.In("a")),
	}
	nc := translate.NodeClaim(np, l, translate.NewVocabulary(nil, []string{"karpenter.kwok.sh"}))
	wantLabels := map[string]string{
		"team": "red", "crew": "a", "rack": "7",
		karpenterv1.NodePoolLabelKey: "general", "karpenter.kwok.sh/kwoknodeclass": "default",
	}
	if diff := cmp.Diff(wantLabels, nc.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	wantAnnotations := map[string]string{
		"note": "x", karpenterv1.NodePoolHashAnnotationKey: translate.PoolHash(np), karpenterv1.NodePoolHashVersionAnnotationKey: "v3",
		karpenterv1.NodeClaimMinValuesRelaxedAnnotationKey: "false",
	}
	if diff := cmp.Diff(wantAnnotations, nc.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	block := true
	owner := []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodePool", Name: "general", UID: "pool-uid", BlockOwnerDeletion: &block}}
	if diff := cmp.Diff(owner, nc.OwnerReferences); diff != "" {
		t.Errorf("owner (-want +got):\n%s", diff)
	}
	for _, r := range nc.Spec.Requirements {
		if r.Key == karpenterv1.NodeRegisteredLabelKey || r.Key == karpenterv1.NodeInitializedLabelKey {
			t.Errorf("requirement %s is of no use to a cloud", r.Key)
		}
	}
	if got := nc.Spec.Resources.Requests.Cpu().String(); got != "1500m" || nc.GenerateName != "general-" {
		t.Errorf("cpu %s, generateName %s", got, nc.GenerateName)
	}
}

// TestClaimOfALaunchThatNothingCanBe checks that labels are not sought for ever where the API
// server takes requirements that no value satisfies, of pods or of pools.
func TestClaimOfALaunchThatNothingCanBe(t *testing.T) {
	t.Parallel()
	parse := func(op label.Operator, values ...string) label.Requirement {
		r, err := label.Parse(op, values)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for name, r := range map[string]label.Requirement{
		"below zero":                   label.Exists().Intersect(parse(label.OpLt, "0")),
		"between a number and itself":  parse(label.OpGt, "4").Intersect(parse(label.OpLt, "6")).Intersect(label.NotIn("5")),
		"the last number is excluded":  parse(label.OpGte, "9223372036854775807").Intersect(label.NotIn("9223372036854775807")),
		"two lists without a value":    label.In("a").Intersect(label.In("b")),
		"above the last number":        parse(label.OpGt, "9223372036854775807"),
		"a value, and none":            label.Exists().Intersect(label.DoesNotExist()),
		"bounds that miss one another": label.Between(8, 9).Intersect(label.Between(1, 2)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &plan.Launch{Pool: "general", Requirements: label.Requirements{"rack": r}}
			nc := translate.NodeClaim(testPool(), l, translate.NewVocabulary(nil, nil))
			if value, ok := nc.Labels["rack"]; ok {
				t.Errorf("label rack=%q, though nothing is %s", value, r)
			}
		})
	}
}

func TestNodeThatIsStarting(t *testing.T) {
	t.Parallel()
	nc := &karpenterv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c1", Labels: map[string]string{"from": "claim"}}, Spec: karpenterv1.NodeClaimSpec{
		Taints:        []corev1.Taint{{Key: "own", Effect: corev1.TaintEffectNoSchedule}},
		StartupTaints: []corev1.Taint{{Key: "cni", Effect: corev1.TaintEffectNoSchedule}},
	}}
	nc.Status.Allocatable = corev1.ResourceList{"gpu": resource.MustParse("4"), corev1.ResourceCPU: resource.MustParse("9")}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"from": "node"}}}
	node.Spec.Taints = []corev1.Taint{
		{Key: "own", Effect: corev1.TaintEffectNoSchedule},
		{Key: "cni", Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule},
		karpenterv1.UnregisteredTaint(),
		{Key: "readiness.k8s.io/x", Effect: corev1.TaintEffectNoSchedule},
		{Key: "node.cluster.x-k8s.io/uninitialized", Effect: corev1.TaintEffectNoSchedule},
	}
	node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), "gpu": resource.MustParse("0")}

	m := translate.Node(node, nc, podNow)
	if m.Labels["from"] != "claim" || m.Name != "n1" || m.Claim != "c1" {
		t.Errorf("until it is registered its claim speaks for it: %+v", m)
	}
	cordoned := node.DeepCopy()
	cordoned.Spec.Taints = append(cordoned.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	if m := translate.Node(cordoned, nc, podNow); len(m.Taints) != 2 || m.Taints[1].Key != corev1.TaintNodeUnschedulable {
		t.Errorf("what is cordoned before it is registered stays so: %v", m.Taints)
	}
	node.Labels[karpenterv1.NodeRegisteredLabelKey] = "true"
	m = translate.Node(node, nc, podNow)
	if diff := cmp.Diff([]cluster.Taint{{Key: "own", Effect: "NoSchedule"}}, m.Taints); diff != "" {
		t.Errorf("taints that stay (-want +got):\n%s", diff)
	}
	if m.Labels["from"] != "node" || m.Allocatable["gpu"] != 4 || m.Allocatable[quantity.CPU] != 8000 {
		t.Errorf("what it does not report yet is taken from the claim: %v", m.Allocatable)
	}
	node.Labels[karpenterv1.NodeInitializedLabelKey] = "true"
	if m = translate.Node(node, nc, podNow); len(m.Taints) != 6 || m.Allocatable["gpu"] != 0 {
		t.Errorf("once initialized it speaks for itself: %v %v", m.Taints, m.Allocatable)
	}
}

// TestANodeThatIsRebootedTakesPodsAgain: while its kubelet is silent, too. If its reboot fails it goes for the
// reason for which it was rebooted, and still counts as one that was rebooted.
func TestANodeThatIsRebootedTakesPodsAgain(t *testing.T) {
	t.Parallel()
	nc := &karpenterv1.NodeClaim{}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{karpenterv1.NodeRegisteredLabelKey: "true"}}}
	node.Spec.Taints = []corev1.Taint{
		karpenterv1.RebootingTaint(),
		{Key: "kept", Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute},
	}
	if m := translate.Node(node, nc, podNow); len(m.Taints) != 2 {
		t.Errorf("a node that has not been rebooted has the taints %v; want two", m.Taints)
	}
	for _, kind := range []string{karpenterv1.ConditionTypeRebooting, karpenterv1.ConditionTypeDisruptionReason} {
		nc.Status.Conditions = append(nc.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Unhealthy"})
	}
	m := translate.Node(node, nc, podNow)
	if len(m.Taints) != 1 || m.Taints[0].Key != "kept" || !m.Rebooting || m.DisruptionReason != "" {
		t.Errorf("taints %v, rebooting %v, reason %q; want the kept taint, true and none", m.Taints, m.Rebooting, m.DisruptionReason)
	}
	nc.DeletionTimestamp = &metav1.Time{Time: podNow}
	if m = translate.Node(node, nc, podNow); !m.Deleting || !m.Rebooting || m.DisruptionReason != "Unhealthy" {
		t.Errorf("given up: deleting %v, rebooting %v, reason %q; want true, true and Unhealthy", m.Deleting, m.Rebooting, m.DisruptionReason)
	}
}

func TestANodeIsHeldByAnnotationOfItsNodeOrClaim(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		node, claim string
		want        string
	}{
		"none":                                    {},
		"true holds for good":                     {node: "true", want: "annotation karpenter.sh/do-not-disrupt on the node"},
		"so does the claim's":                     {claim: "true", want: "annotation karpenter.sh/do-not-disrupt on the claim"},
		"a duration holds from the creation on":   {node: "61m", want: "annotation karpenter.sh/do-not-disrupt on the node"},
		"and no longer":                           {node: "60m", claim: "1h"},
		"the claim's counts from the claim's own": {claim: "2h", want: "annotation karpenter.sh/do-not-disrupt on the claim"},
		"what cannot be read does not hold":       {node: "yes", claim: "-5m"},
	} {
		meta := func(value string) metav1.ObjectMeta {
			o := metav1.ObjectMeta{Name: "x", CreationTimestamp: metav1.NewTime(podNow.Add(-time.Hour))}
			if value != "" {
				o.Annotations = map[string]string{karpenterv1.DoNotDisruptAnnotationKey: value}
			}
			return o
		}
		m := translate.Node(&corev1.Node{ObjectMeta: meta(c.node)}, &karpenterv1.NodeClaim{ObjectMeta: meta(c.claim)}, podNow)
		if m.DoNotDisrupt != c.want {
			t.Errorf("%s: Held is %q, want %q", name, m.DoNotDisrupt, c.want)
		}
	}
	older := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{karpenterv1.DoNotConsolidateAnnotationKey: "true"}}}
	older.Spec.Taints = []corev1.Taint{{Key: karpenterv1.OlderDisruptedTaintKey, Value: "disrupting", Effect: corev1.TaintEffectNoSchedule}}
	m := translate.Node(older, nil, podNow)
	if m.DoNotDisrupt != "annotation karpenter.sh/do-not-consolidate on the node" || !m.DisruptedTaint {
		t.Errorf("with the older annotation and taint: DoNotDisrupt is %q, DisruptedTaint %t", m.DoNotDisrupt, m.DisruptedTaint)
	}
}

func TestWhatAPodSaysThatItsEvictionCosts(t *testing.T) {
	t.Parallel()
	const own, theirs = karpenterv1.DisruptionCostAnnotationKey, corev1.PodDeletionCost
	unread := func(key, text string) string {
		return "annotation " + key + " is " + strconv.Quote(text) + " and counts as 0: it must be a number from -2147483648 to 2147483647"
	}
	for name, c := range map[string]struct {
		annotations map[string]string
		isManaged   bool
		want        int32
		why         string
	}{
		"nothing":                             {nil, false, 0, ""},
		"our annotation":                      {map[string]string{own: "12"}, false, 12, ""},
		"our annotation, with the gate":       {map[string]string{own: "12"}, true, 12, ""},
		"our annotation before Kubernetes'":   {map[string]string{own: "12", theirs: "13"}, false, 12, ""},
		"Kubernetes' annotation":              {map[string]string{theirs: "-13"}, false, -13, ""},
		"Kubernetes' annotation we may write": {map[string]string{theirs: "-13"}, true, 0, ""},
		"ours is wrong: no other counts":      {map[string]string{own: "much", theirs: "13"}, false, 0, unread(own, "much")},
		"ours is empty":                       {map[string]string{own: "", theirs: "13"}, false, 0, unread(own, "")},
		"no whole number":                     {map[string]string{theirs: "1.5"}, false, 0, unread(theirs, "1.5")},
		"more than 32 bits":                   {map[string]string{theirs: "2147483648"}, false, 0, unread(theirs, "2147483648")},
		"the most":                            {map[string]string{theirs: "2147483647"}, false, 2147483647, ""},
		"the least":                           {map[string]string{own: "-2147483648"}, false, -2147483648, ""},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: c.annotations}}
		if got, why := translate.EvictionCost(p, c.isManaged); got != c.want || why != c.why {
			t.Errorf("%s: %d, %q; want %d, %q", name, got, why, c.want, c.why)
		}
	}
}
