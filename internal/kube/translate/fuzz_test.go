package translate_test

import (
	"encoding/json"
	"math"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// vocabulary is what the fuzz tests translate with.
func vocabulary() translate.Vocabulary {
	return translate.NewVocabulary([]string{"karpenter.kwok.sh/instance-cpu"}, []string{"karpenter.kwok.sh"})
}

// longExponent is what no API server hands out: it works out all digits of such a quantity itself
// before anybody else sees it.
var longExponent = regexp.MustCompile(`[eE][+-]?[0-9]{4}`)

// read returns the object that the text is, as the API server would hand it out; or none.
func read[T any](text string) (*T, bool) {
	o := new(T)
	return o, !longExponent.MatchString(text) && json.Unmarshal([]byte(text), o) == nil
}

// unchanged checks that what use does leaves the object as it was.
func unchanged[T any](t *testing.T, o *T, use func()) {
	t.Helper()
	before, err := json.Marshal(o)
	if err != nil {
		t.Skip("it cannot be written") // a time beyond the year 9999
	}
	use()
	if after, err := json.Marshal(o); err != nil || string(after) != string(before) {
		t.Errorf("the object was changed (%v): %s", err, cmp.Diff(string(before), string(after)))
	}
}

func FuzzPod(f *testing.F) {
	for _, seed := range []string{
		`{"metadata":{"name":"a","labels":{"app":"a"},"annotations":{"karpenter.sh/do-not-disrupt":"2562047h","controller.kubernetes.io/pod-deletion-cost":"-2147483648"}},"spec":{"terminationGracePeriodSeconds":9223372036854775807,"containers":[{"resources":{"requests":{"cpu":"9223372036854775807","memory":"8Ei"}}},{"resources":{"requests":{"cpu":"1n","memory":"8Ei","example.com/x":"9E"}}}]}}`,
		`{"spec":{"overhead":{"cpu":"9E"},"resources":{"requests":{"cpu":"1m"}},"initContainers":[{"restartPolicy":"Always","ports":[{"hostPort":80,"protocol":"UDP","hostIP":"::"}],"resources":{"requests":{"memory":"7.9Ei"}}}]}}`,
		`{"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"rack","operator":"Lt","values":["0"]},{"key":"rack","operator":"Gt","values":["9223372036854775807"]}]},{},{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}]},"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":100,"preference":{"matchExpressions":[{"key":"a","operator":"DoesNotExist"}]}}]}}}}`,
		`{"metadata":{"labels":{"v":"1"}},"spec":{"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"kubernetes.io/hostname","labelSelector":{"matchExpressions":[{"key":"a","operator":"In","values":["x"]}]},"namespaceSelector":{},"matchLabelKeys":["v"],"mismatchLabelKeys":["w"]}]}},"topologySpreadConstraints":[{"maxSkew":2147483647,"minDomains":2147483647,"topologyKey":"odd","whenUnsatisfiable":"ScheduleAnyway","matchLabelKeys":["v"],"nodeTaintsPolicy":"Honor"}]}}`,
		`{"spec":{"nodeSelector":{"kubernetes.io/hostname":"n","failure-domain.beta.kubernetes.io/zone":"a","topology.kubernetes.io/zone":"b"},"tolerations":[{"operator":"Exists"},{"key":"a","operator":"Gt","value":"5"}],"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"gone"}},{"name":"e","ephemeral":{}}]},"status":{"startTime":"2026-11-21T11:00:00Z","phase":"Failed"}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := read[corev1.Pod](text)
		if !ok {
			return
		}
		unchanged(t, p, func() {
			constraints := translate.PodConstraints(p, vocabulary())
			twin := p.DeepCopy()
			twin.Name, twin.UID = "twin", "twin"
			if translate.ConstraintsKey(twin) != translate.ConstraintsKey(p) || !reflect.DeepEqual(translate.PodConstraints(twin, vocabulary()), constraints) {
				t.Errorf("a twin is no twin: %s and %s", translate.ConstraintsKey(twin), translate.ConstraintsKey(p))
			}
			if len(constraints.Terms) == 0 {
				t.Errorf("no term is left, and that means anywhere")
			}
			aboutOnePod(t, p)
		})
	})
}

func aboutOnePod(t *testing.T, p *corev1.Pod) {
	t.Helper()
	if grace := translate.Grace(p); grace < 0 {
		t.Errorf("a grace of %s", grace)
	}
	translate.ReschedulablePod(p, translate.AutoscalerRules{}, noon)
	if cost, why := translate.EvictionCost(p, false); why != "" && cost != 0 {
		t.Errorf("a cost that cannot be read is %d", cost)
	}
	drain := translate.DrainPod(p, noon)
	if drain.Grace < 0 {
		t.Errorf("drains with a grace of %s", drain.Grace)
	}
	if translate.Evictable(p, noon) && !translate.Active(p) {
		t.Error("it may be evicted and has ended")
	}
	if hold := translate.DoNotDisrupt(p, noon); hold.Active && hold.Invalid {
		t.Error("an annotation that cannot be read holds")
	}
	if held := translate.DoNotDisruptActive(p, noon); held && translate.Active(p) == translate.Disruptable(p, noon) {
		t.Error("it holds and may be disrupted")
	}
	_ = translate.Unwanted(p)
	if got, want := len(translate.VolumeClaims(p)), len(translate.ClaimsOf(p)); got < want {
		t.Errorf("%d volume claims by name, %d by themselves", got, want)
	}
	translate.Volumes(p, translate.ClaimsOf(p), true)
}

// volumes is a pod's claim with all that it depends on.
type volumes struct {
	Pod       corev1.Pod
	Claim     *corev1.PersistentVolumeClaim
	Volume    *corev1.PersistentVolume
	Class     *storagev1.StorageClass
	Unclaimed []*corev1.PersistentVolume
	Host      string
}

func FuzzVolumes(f *testing.F) {
	for _, seed := range []string{
		`{"Pod":{"spec":{"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}]}}}`,
		`{"Pod":{"spec":{"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}]}},"Claim":{"metadata":{"name":"c"},"spec":{"volumeName":"pv"}},"Volume":{"metadata":{"labels":{"topology.kubernetes.io/zone":"a__b"}},"spec":{"csi":{"driver":"d","volumeHandle":"h"},"nodeAffinity":{"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"k","operator":"Gt","values":["x"]}]}]}}}}}`,
		`{"Pod":{"spec":{"volumes":[{"name":"v","ephemeral":{}}]}},"Claim":{"metadata":{"name":"-v","annotations":{"volume.kubernetes.io/selected-node":"n"}},"spec":{"storageClassName":"s","resources":{"requests":{"storage":"8Ei"}}}},"Class":{"provisioner":"kubernetes.io/aws-ebs","volumeBindingMode":"WaitForFirstConsumer","allowedTopologies":[{},{"matchLabelExpressions":[{"key":"z","values":[]}]}]},"Unclaimed":[{"spec":{"capacity":{"storage":"9E"}}}]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, ok := read[volumes](text)
		if !ok {
			return
		}
		for _, pv := range v.Unclaimed {
			if pv == nil {
				return
			}
		}
		unchanged(t, v, func() {
			claims := translate.ClaimsOf(&v.Pod)
			for i := range claims {
				claims[i].Claim, claims[i].Volume, claims[i].Class, claims[i].Unclaimed, claims[i].Host = v.Claim, v.Volume, v.Class, v.Unclaimed, v.Host
				claims[i].Attachment()
			}
			for _, moves := range []bool{false, true} {
				got := translate.Volumes(&v.Pod, claims, moves)
				if !reflect.DeepEqual(got, translate.Volumes(&v.Pod, claims, moves)) {
					t.Errorf("another answer the second time than %+v", got)
				}
			}
		})
	})
}

// nodeAndClaim is a Node and its claim; either may be missing.
type nodeAndClaim struct {
	Node  *corev1.Node
	Claim *karpenterv1.NodeClaim
	Pool  *karpenterv1.NodePool
	CSI   *storagev1.CSINode
}

func FuzzNode(f *testing.F) {
	for _, seed := range []string{
		`{"Node":{"metadata":{"name":"n","labels":{"karpenter.sh/registered":"true"},"annotations":{"karpenter.sh/do-not-disrupt":"-1h"}},"spec":{"taints":[{"key":"karpenter.sh/disrupted","effect":"NoSchedule"},{"key":"dovetail.sh/leaving","effect":"PreferNoSchedule"},{"key":"node.kubernetes.io/unschedulable"}]},"status":{"capacity":{"cpu":"9223372036854775807","memory":"8Ei","pods":"-1"},"conditions":[{"type":"Ready","status":"True"}]}},"CSI":{"spec":{"drivers":[{"name":"d","allocatable":{"count":-1}}]}}}`,
		`{"Claim":{"metadata":{"name":"c","creationTimestamp":"2026-11-21T11:00:00Z","annotations":{"karpenter.sh/nodeclaim-termination-timestamp":"never","dovetail.sh/replace-by":"9999-12-31T23:59:59Z","dovetail.sh/interruption":"x","dovetail.sh/disruption-step":"a 99999999999999999999 1"}},"spec":{"expireAfter":"2562047h","terminationGracePeriod":"2562047h","requirements":[{"key":"a","operator":"Gt","values":["-1"]}],"resources":{"requests":{"cpu":"9E","memory":"8Ei"}}},"status":{"conditions":[{"type":"Initialized","status":"True"}]}},"Pool":{"spec":{"template":{"spec":{"nodeClassRef":{}}}}}}`,
		`{"Node":{"status":{"allocatable":{"memory":"1"}}},"Claim":{"spec":{"expireAfter":"Never","startupTaints":[{"key":"a"}]},"status":{"providerID":"x","allocatable":{"memory":"2"},"lastPodEventTime":"2026-11-21T11:00:00Z"}}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, ok := read[nodeAndClaim](text)
		if !ok {
			return
		}
		unchanged(t, o, func() {
			if o.Node != nil || o.Claim != nil {
				m := translate.Node(o.Node, o.Claim, noon)
				if !reflect.DeepEqual(m, translate.Node(o.Node, o.Claim, noon)) {
					t.Errorf("another answer the second time than %+v", m)
				}
				if o.Claim == nil && m.Claim != "" {
					t.Errorf("claim %q of a Node without one", m.Claim)
				}
			}
			if o.Node != nil {
				translate.LifecycleNode(o.Node)
				if got := translate.NodeConditions(o.Node); len(got) != len(o.Node.Status.Conditions) {
					t.Errorf("%d conditions of %d", len(got), len(o.Node.Status.Conditions))
				}
			}
			if o.CSI != nil {
				translate.AttachLimits(o.CSI)
			}
			if o.Claim != nil {
				aboutOneClaim(t, o)
			}
		})
	})
}

func aboutOneClaim(t *testing.T, o *nodeAndClaim) {
	t.Helper()
	c := translate.LifecycleClaim(o.Claim)
	deadline, err := translate.Deadline(o.Claim)
	if err != nil && (!strings.Contains(err.Error(), o.Claim.Name) || !c.Deadline.IsZero()) {
		t.Errorf("a deadline that cannot be read is %s, and the error is %v", c.Deadline, err)
	}
	if err == nil && !c.Deadline.Equal(deadline) {
		t.Errorf("deadlines %s and %s", deadline, c.Deadline)
	}
	if _, drainErr := translate.DrainClaim(o.Claim); (drainErr != nil) != (err != nil) {
		t.Errorf("the drain says %v, the deadline %v", drainErr, err)
	}
	if translate.Reclaimed(o.Claim) != "" && c.Expires.IsZero() {
		t.Error("the cloud takes it, at no time")
	}
	r, err := translate.ClaimRequirements(o.Claim)
	if err == nil {
		writtenAgain(t, r)
	}
	if o.Pool != nil {
		_, _ = translate.Drift(o.Claim, o.Pool, nil, noon)
	}
}

// writtenAgain checks that requirements that something can satisfy are read as they were written.
func writtenAgain(t *testing.T, r label.Requirements) {
	t.Helper()
	for _, q := range r {
		if q.Operator() == label.OpDoesNotExist && !q.AllowsAbsence() {
			return // nothing can be this, so that nothing is launched
		}
	}
	again, err := translate.Requirements(translate.RequirementList(r))
	if err != nil || !again.Equal(positiveMinValues(r)) {
		t.Errorf("%s is written as %v and read as %s, %v", r, translate.RequirementList(r), again, err)
	}
}

// positiveMinValues leaves out what the API server would not take.
func positiveMinValues(r label.Requirements) label.Requirements {
	out := label.Requirements{}
	for key, q := range r {
		out[key] = q.WithMinValues(max(0, q.MinValues))
	}
	return out
}

func FuzzPool(f *testing.F) {
	for _, seed := range []string{
		`{"metadata":{"name":"p","annotations":{"dovetail.sh/budget-time-zone":"Europe/Berlin","dovetail.sh/eviction-hourly-dollars":"NaN"}},"spec":{"weight":100,"limits":{"cpu":"9223372036854775807","nodes":"-1"},"disruption":{"consolidateAfter":"Never","budgets":[{"nodes":"100%"},{"nodes":"99999999999999999999"},{"nodes":"0","schedule":"0 0 29 2 *","duration":"2562047h"},{"nodes":"1","schedule":"* * * * *","duration":"1m"}]},"template":{"metadata":{"labels":{"team":"red"}},"spec":{"nodeClassRef":{"group":"karpenter.kwok.sh","kind":"KWOKNodeClass","name":"d"},"expireAfter":"2562047h","requirements":[{"key":"rack","operator":"Gte","values":["5"]},{"key":"rack","operator":"Lte","values":["5"]},{"key":"rack","operator":"NotIn","values":["5"]},{"key":"team","operator":"In","values":["blue"]}]}}}}`,
		`{"spec":{"replicas":9223372036854775807,"template":{"spec":{"nodeClassRef":{},"requirements":[{"key":"a","operator":"Exists","minValues":50},{"key":"a","operator":"NotIn","values":["0","1","2"]},{"key":"b","operator":"Lt","values":["0"]},{"key":"c","operator":"In","values":[]}]}}}}`,
		`{"spec":{"template":{"spec":{"nodeClassRef":{},"requirements":[{"key":"failure-domain.beta.kubernetes.io/zone","operator":"In","values":["a"]},{"key":"topology.kubernetes.io/zone","operator":"In","values":["b"]}],"taints":[{"key":"a"}],"startupTaints":[{"key":"a"}]}}}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		np, ok := read[karpenterv1.NodePool](text)
		if !ok || np.Spec.Template.Spec.NodeClassRef == nil { // the API server wants one
			return
		}
		unchanged(t, np, func() {
			translate.UnreadAnnotations(np)
			pool := translate.Pool(np, nil, noon)
			if len(pool.Budgets) != len(np.Spec.Disruption.Budgets) {
				t.Errorf("%d budgets of %d", len(pool.Budgets), len(np.Spec.Disruption.Budgets))
			}
			for _, n := range []float64{pool.EvictionHourly, pool.SavingShareMin} {
				if !(n >= 0) || math.IsInf(n, 0) {
					t.Errorf("an annotation says %f", n)
				}
			}
			if translate.ValidatePool(np, vocabulary()) != nil {
				return
			}
			launched(t, np, pool.Requirements)
		})
	})
}

// launched checks the claim of a launch from a valid pool.
func launched(t *testing.T, np *karpenterv1.NodePool, r label.Requirements) {
	t.Helper()
	nc := translate.NodeClaim(np, &plan.Launch{Pool: np.Name, Requirements: r}, vocabulary())
	for key, value := range nc.Labels {
		if q, ok := r[key]; ok && np.Spec.Template.Labels[key] == "" && !q.Allows(value) {
			t.Errorf("label %s=%s is not %s", key, value, q)
		}
	}
	own, err := translate.ClaimRequirements(nc)
	if err != nil {
		t.Errorf("the claim's requirements cannot be read: %v", err)
	}
	writtenAgain(t, own)
}

func FuzzSchedule(f *testing.F) {
	f.Add("0 0 29 2 *", "Europe/Berlin", int64(2562047*time.Hour), int64(0))
	f.Add("@hourly", "Australia/Lord_Howe", int64(time.Minute), int64(1790000000))
	f.Add("*/7 9-17 13 * fri", "Pacific/Apia", int64(30*24*time.Hour), int64(1325100000))
	f.Fuzz(func(t *testing.T, schedule, zone string, duration, at int64) {
		if duration < 0 || at < 0 || at > 253402300799 { // the year 9999
			return
		}
		b := scheduled(schedule, zone, time.Duration(duration), time.Unix(at, 0))
		longer := scheduled(schedule, zone, time.Duration(max(duration, duration<<1)), time.Unix(at, 0))
		if b.Active && b.Invalid == "" && !longer.Active {
			t.Errorf("open for %s and not for twice as long", time.Duration(duration))
		}
	})
}
