package translate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/label"
)

const zoneKey = corev1.LabelTopologyZone

func in(key string, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

// testPV is a free volume of class "fast" on driver ebs, with a node affinity of these terms.
func testPV(name string, terms ...[]corev1.NodeSelectorRequirement) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pv.Spec.StorageClassName = "fast"
	pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
	pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "ebs", VolumeHandle: "vol-" + name}
	pv.Status.Phase = corev1.VolumeAvailable
	if len(terms) > 0 {
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{}}
	}
	for _, t := range terms {
		pv.Spec.NodeAffinity.Required.NodeSelectorTerms = append(pv.Spec.NodeAffinity.Required.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: t})
	}
	return pv
}

func testPVC(name string) *corev1.PersistentVolumeClaim {
	class := "fast"
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{}}}
	c.Spec.StorageClassName = &class
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("5Gi")}
	return c
}

// testClass makes volumes for waiting pods, in the zones given; none: anywhere.
func testClass(provisioner string, zones ...string) *storagev1.StorageClass {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: provisioner, VolumeBindingMode: &mode}
	for _, z := range zones {
		c.AllowedTopologies = append(c.AllowedTopologies, corev1.TopologySelectorTerm{
			MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: zoneKey, Values: strings.Split(z, "|")}},
		})
	}
	return c
}

// bound is a claim that has the volume.
func bound(name string, pv *corev1.PersistentVolume) PodClaim {
	c := testPVC(name)
	c.Spec.VolumeName = pv.Name
	c.Annotations[volume.AnnBindCompleted] = "yes"
	return PodClaim{Name: name, Claim: c, Volume: pv}
}

// unbound is a claim that has none yet.
func unbound(name string, class *storagev1.StorageClass, change ...func(*PodClaim)) PodClaim {
	c := PodClaim{Name: name, Claim: testPVC(name), Class: class}
	for _, f := range change {
		f(&c)
	}
	return c
}

func TestVolumesSayWhereAPodMayGo(t *testing.T) {
	t.Parallel()
	zone := func(z ...string) []corev1.NodeSelectorRequirement {
		return []corev1.NodeSelectorRequirement{in(zoneKey, z...)}
	}
	host := []corev1.NodeSelectorRequirement{in(corev1.LabelHostname, "n1")}
	local := testPV("l", append(zone("a"), host...))
	local.Spec.CSI, local.Spec.Local = nil, &corev1.LocalVolumeSource{Path: "/mnt"}
	own := bound("web-scratch", testPV("v", zone("a")))
	own.Ephemeral, own.Class = true, testClass("ebs", "a|b")
	yes := true
	own.Claim.OwnerReferences = []metav1.OwnerReference{{Name: "web", UID: "web", Controller: &yes}}
	labelled := testPV("old")
	labelled.Labels = map[string]string{corev1.LabelFailureDomainBetaZone: "a__b"}
	field := testPV("field", zone("a"))
	field.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchFields = []corev1.NodeSelectorRequirement{in("metadata.name", "n1")}
	unclaimed := func(pvs ...*corev1.PersistentVolume) func(*PodClaim) {
		return func(c *PodClaim) { c.Unclaimed = pvs }
	}
	small := testPV("small", zone("c"))
	small.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	selected := func(node, host string) func(*PodClaim) {
		return func(c *PodClaim) { c.Claim.Annotations[volume.AnnSelectedNode], c.Host = node, host }
	}
	for name, tc := range map[string]struct {
		claims []PodClaim
		moves  bool
		want   []string // terms, or the one thing that is wrong
		wrong  string
	}{
		"a volume without affinity is reached from everywhere": {claims: []PodClaim{bound("c", testPV("v"))}, want: []string{""}},
		"a bound volume's terms are alternatives":              {claims: []PodClaim{bound("c", testPV("v", zone("a"), zone("b")))}, want: []string{zoneKey + " In [a]", zoneKey + " In [b]"}},
		"a volume of EBS names its zone by the driver's label": {
			claims: []PodClaim{bound("c", testPV("v", []corev1.NodeSelectorRequirement{in("topology.ebs.csi.aws.com/zone", "a")}))}, want: []string{zoneKey + " In [a]"},
		},
		"an old volume's labels name its zones":          {claims: []PodClaim{bound("c", labelled)}, want: []string{zoneKey + " In [a b]"}},
		"a volume that asks for a field is out of reach": {claims: []PodClaim{bound("c", field)}, wrong: "volume claim c is bound to volume field, which no node can reach"},
		"a local volume holds the pod on its node":       {claims: []PodClaim{bound("c", local)}, want: []string{"kubernetes.io/hostname In [n1], " + zoneKey + " In [a]"}},
		"a local volume goes with its node":              {claims: []PodClaim{bound("c", local)}, moves: true, want: []string{zoneKey + " In [a]"}},
		"any other volume is bound to a node even then":  {claims: []PodClaim{bound("c", testPV("v", host))}, moves: true, want: []string{"kubernetes.io/hostname In [n1]"}},
		"a pod's own volume holds it where it is":        {claims: []PodClaim{own}, want: []string{zoneKey + " In [a]"}},
		"a pod's own volume goes with the pod":           {claims: []PodClaim{own}, moves: true, want: []string{zoneKey + " In [a b]"}},
		"a class makes volumes anywhere":                 {claims: []PodClaim{unbound("c", testClass("ebs"))}, want: []string{""}},
		"a class makes volumes in some places":           {claims: []PodClaim{unbound("c", testClass("ebs", "a|b", "c"))}, want: []string{zoneKey + " In [a b]", zoneKey + " In [c]"}},
		"a free volume that suits adds its place":        {claims: []PodClaim{unbound("c", testClass("ebs", "a"), unclaimed(small, testPV("v", zone("b"))))}, want: []string{zoneKey + " In [b]", zoneKey + " In [a]"}},
		"a class that makes none has only free volumes": {
			claims: []PodClaim{unbound("c", testClass(volume.NotSupportedProvisioner), unclaimed(testPV("v", zone("b"))))}, want: []string{zoneKey + " In [b]"},
		},
		"a class that makes none, and no free volume that suits": {
			claims: []PodClaim{unbound("c", testClass(volume.NotSupportedProvisioner), unclaimed(small))}, wrong: "volume claim c finds no free volume of storage class fast, which makes none",
		},
		"the scheduler has chosen the node already": {claims: []PodClaim{unbound("c", testClass("ebs"), selected("n1", "host-1"))}, want: []string{"kubernetes.io/hostname In [host-1]"}},
		"the chosen node has gone":                  {claims: []PodClaim{unbound("c", testClass("ebs"), selected("n1", ""))}, wrong: "volume claim c waits for a volume on node n1, which does not exist"},
		"two volumes meet": {
			claims: []PodClaim{bound("c", testPV("v", zone("a", "b"), zone("c"))), unbound("d", testClass("ebs", "b|c"))}, want: []string{zoneKey + " In [b]", zoneKey + " In [c]"},
		},
		"two volumes in different zones": {claims: []PodClaim{bound("c", testPV("v", zone("a"))), bound("d", testPV("w", zone("b")))}, wrong: "volume claim d needs other topology domains than the pod's other volumes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Volumes(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "web"}}, tc.claims, tc.moves)
			var terms []string
			for _, r := range got.Terms {
				terms = append(terms, r.String())
			}
			if diff := cmp.Diff(tc.want, terms); diff != "" || got.Invalid != tc.wrong {
				t.Errorf("wrong %q, want %q; terms (-want +got):\n%s", got.Invalid, tc.wrong, diff)
			}
		})
	}
}

// TestManyClaimsOfOneClass ask for what one of them does. Each pair of alternatives would else be
// met with each other, for each claim, whenever a snapshot is taken.
func TestManyClaimsOfOneClass(t *testing.T) {
	t.Parallel()
	class := testClass("ebs", "a|b", "b|c", "c|d")
	claims := make([]PodClaim, 0, 30)
	for i := range cap(claims) {
		claims = append(claims, unbound(fmt.Sprint("data-", i), class))
	}
	one, many := Volumes(&corev1.Pod{}, claims[:1], false), Volumes(&corev1.Pod{}, claims, false)
	if diff := cmp.Diff(one.Terms, many.Terms, cmp.Comparer(label.Requirement.Equal)); diff != "" {
		t.Errorf("terms of 30 claims (-one claim +30 claims):\n%s", diff)
	}
}

func TestClaimsThatNoNodeCanHelp(t *testing.T) {
	t.Parallel()
	immediate := testClass("ebs")
	immediate.VolumeBindingMode = nil
	gone := metav1.Now()
	with := func(class *storagev1.StorageClass, change func(*PodClaim)) PodClaim {
		return unbound("c", class, change)
	}
	for name, tc := range map[string]struct {
		claim PodClaim
		want  string
	}{
		"missing":                  {PodClaim{Name: "c"}, "does not exist"},
		"ephemeral and missing":    {PodClaim{Name: "c", Ephemeral: true}, "has not been made yet"},
		"ephemeral, of another":    {with(testClass("ebs"), func(c *PodClaim) { c.Ephemeral = true }), "was not made for this pod"},
		"going":                    {with(testClass("ebs"), func(c *PodClaim) { c.Claim.DeletionTimestamp = &gone }), "is being deleted"},
		"lost":                     {with(testClass("ebs"), func(c *PodClaim) { c.Claim.Status.Phase = corev1.ClaimLost }), "has lost its volume"},
		"another pod's":            {with(testClass("ebs"), func(c *PodClaim) { c.TakenBy = "default/other" }), "is for one pod only, and pod default/other has it"},
		"of no class":              {with(nil, func(c *PodClaim) { c.Claim.Spec.StorageClassName = nil }), "has neither a volume nor a storage class"},
		"of a class that is not":   {unbound("c", nil), "asks for storage class fast, which does not exist"},
		"bound without waiting":    {unbound("c", immediate), "waits for a volume, which storage class fast makes without a pod"},
		"half bound":               {with(testClass("ebs"), func(c *PodClaim) { c.Claim.Spec.VolumeName = "v" }), "is not bound to volume v yet"},
		"bound to what is not yet": {func() PodClaim { c := bound("c", testPV("v")); c.Volume = nil; return c }(), "is bound to volume v, which does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Volumes(&corev1.Pod{}, []PodClaim{tc.claim}, false); got.Invalid != "volume claim c "+tc.want {
				t.Errorf("invalid: %q, want %q", got.Invalid, tc.want)
			}
		})
	}
}

func TestVolumesAreCountedByDriver(t *testing.T) {
	t.Parallel()
	intree := testPV("old")
	intree.Spec.CSI, intree.Spec.AWSElasticBlockStore = nil, &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}
	nfs := testPV("share")
	nfs.Spec.CSI, nfs.Spec.NFS = nil, &corev1.NFSVolumeSource{Server: "s", Path: "/"}
	shared := testPV("v")
	v := Volumes(&corev1.Pod{}, []PodClaim{
		bound("a", shared), bound("b", shared), bound("c", testPV("w")), bound("d", intree), bound("e", nfs),
		unbound("f", testClass("kubernetes.io/aws-ebs")), unbound("g", testClass("ebs")),
	}, false)
	if got, want := v.Attach.String(), "attachable-volumes-csi-ebs=3 attachable-volumes-csi-ebs.csi.aws.com=2"; got != want {
		t.Errorf("attached: %s, want %s", got, want)
	}
}

func TestClaimsOfAPod(t *testing.T) {
	t.Parallel()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	claim := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}
	p.Spec.Volumes = []corev1.Volume{
		{Name: "a", VolumeSource: claim},
		{Name: "b", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "again", VolumeSource: claim},
		{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
	}
	if diff := cmp.Diff([]PodClaim{{Name: "data"}, {Name: "web-scratch", Ephemeral: true}}, ClaimsOf(p)); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
}

// TestReachLikeKubernetes compares where we see a volume with the function that
// kube-scheduler asks.
func TestReachLikeKubernetes(t *testing.T) {
	t.Parallel()
	key, value := rapid.SampledFrom([]string{"zone", "rack", "size"}), rapid.SampledFrom([]string{"a", "b", "1", "2", "10"})
	expression := rapid.Custom(func(t *rapid.T) corev1.NodeSelectorRequirement {
		e := corev1.NodeSelectorRequirement{Key: key.Draw(t, "key"), Operator: rapid.SampledFrom([]corev1.NodeSelectorOperator{
			corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist,
			corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt, "Like",
		}).Draw(t, "operator")}
		switch e.Operator {
		case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
			e.Values = []string{rapid.SampledFrom([]string{"0", "1", "5"}).Draw(t, "bound")}
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
			e.Values = rapid.SliceOfN(value, 1, 3).Draw(t, "values")
		default:
		}
		return e
	})
	rapid.Check(t, func(t *rapid.T) {
		pv := testPV("v", rapid.SliceOfN(rapid.SliceOfN(expression, 0, 2), 0, 3).Draw(t, "terms")...)
		labels := rapid.MapOf(key, value).Draw(t, "labels")
		want := volume.CheckNodeAffinity(pv, labels) == nil
		got := false
		for _, r := range reach(pv, false) {
			_, ok := r.Matches(labels)
			got = got || ok
		}
		if got != want {
			t.Fatalf("%v reaches a node labelled %v: %v, Kubernetes says %v", pv.Spec.NodeAffinity, labels, got, want)
		}
	})
}

// TestMeetIsBoth: what a pod's two volumes allow together is what each allows alone.
func TestMeetIsBoth(t *testing.T) {
	t.Parallel()
	value := rapid.SampledFrom([]string{"a", "b", "c"})
	class := rapid.Custom(func(t *rapid.T) *storagev1.StorageClass {
		return testClass("ebs", rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOfN(value, 1, 2).Draw(t, "zones"), "|")
		}), 0, 3).Draw(t, "terms")...)
	})
	allows := func(terms []label.Requirements, labels map[string]string) bool {
		for _, r := range terms {
			if _, ok := r.Matches(labels); ok {
				return true
			}
		}
		return false
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := class.Draw(t, "a"), class.Draw(t, "b")
		labels := map[string]string{zoneKey: value.Draw(t, "zone")}
		both := Volumes(&corev1.Pod{}, []PodClaim{unbound("a", a), unbound("b", b)}, false)
		want := allows(allowedTopologies(a), labels) && allows(allowedTopologies(b), labels)
		if got := allows(both.Terms, labels); got != want {
			t.Fatalf("zone %s is right: %v, want %v (%+v)", labels[zoneKey], got, want, both)
		}
	})
}
