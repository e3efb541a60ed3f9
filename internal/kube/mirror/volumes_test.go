package mirror

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

const ebs = quantity.AttachPrefix + "ebs"

func withClaims(p *corev1.Pod, names ...string) *corev1.Pod {
	for _, name := range names {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}})
	}
	return p
}

func zonalClass(zones ...string) *storagev1.StorageClass {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "zonal"}, Provisioner: "ebs", VolumeBindingMode: &mode,
		AllowedTopologies: []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
			{Key: corev1.LabelTopologyZone, Values: zones},
		}}},
	}
}

func waitingPVC(name string) *corev1.PersistentVolumeClaim {
	class := "zonal"
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, ResourceVersion: "1"},
		Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: &class},
	}
}

// boundPair is a claim and its volume in a zone.
func boundPair(name, zone string) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	c := waitingPVC(name)
	c.Spec.VolumeName = "pv-" + name
	c.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name, Labels: map[string]string{corev1.LabelTopologyZone: zone}}}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "ebs", VolumeHandle: name}
	pv.Status.Phase = corev1.VolumeBound
	return c, pv
}

// asked returns what each pending pod asks of labels, or why it is invalid.
func asked(snap *cluster.Snapshot) map[string]string {
	out := map[string]string{}
	for _, p := range snap.Pending {
		out[p.Name] = p.Constraints.Invalid
		if p.Constraints.Invalid == "" {
			out[p.Name] = p.Constraints.Terms[0].String()
		}
	}
	return out
}

// TestAPodIsHealedWhenItsVolumesAre follows one pod from a claim that is missing to a
// bound volume.
func TestAPodIsHealedWhenItsVolumesAre(t *testing.T) {
	t.Parallel()
	s := newTestStore(atNoon)
	var woken []string
	s.OnWork(func(id string) { woken = append(woken, id) })
	upsert(s, waitingPVC("other"))
	upsert(s, withClaims(pendingPod("web"), "data"))
	expect := func(want string) {
		t.Helper()
		if diff := cmp.Diff(map[string]string{"web": want}, asked(s.Snapshot())); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
	expect("volume claim data does not exist")
	upsert(s, waitingPVC("data"))
	expect("volume claim data asks for storage class zonal, which does not exist")
	upsert(s, zonalClass("a", "b"))
	expect("topology.kubernetes.io/zone In [a b]")
	claim, pv := boundPair("data", "b")
	upsert(s, claim)
	expect("volume claim data is bound to volume pv-data, which does not exist")
	upsert(s, pv)
	expect("topology.kubernetes.io/zone In [b]")
	if diff := cmp.Diff([]string{"pod/web", "pvc/default/data/1", "storageclass/zonal/", "pvc/default/data/1", "pv/pv-data/"}, woken); diff != "" {
		t.Errorf("what woke the provisioner (-want +got):\n%s", diff)
	}
	remove(s, claim)
	expect("volume claim data does not exist")
}

func TestPodsWithAlikeVolumesAreAlike(t *testing.T) {
	t.Parallel()
	s := newTestStore(atNoon)
	upsert(s, zonalClass("a", "b"))
	for _, name := range []string{"d1", "d2"} {
		upsert(s, waitingPVC(name))
	}
	claim, pv := boundPair("d3", "b")
	upsert(s, claim)
	upsert(s, pv)
	upsert(s, pendingPod("p0"))
	for i, name := range []string{"d1", "d2", "d3"} {
		upsert(s, withClaims(pendingPod([]string{"p1", "p2", "p3"}[i]), name))
	}
	p := s.Snapshot().Pending
	if p[1].Constraints != p[2].Constraints || p[0].Constraints == p[1].Constraints || p[1].Constraints == p[3].Constraints {
		t.Errorf("constraints %p %p %p %p: only the second and third are alike", p[0].Constraints, p[1].Constraints, p[2].Constraints, p[3].Constraints)
	}
	if got := p[1].Constraints.Requests[ebs]; got != 1 || p[0].Constraints.Requests[ebs] != 0 {
		t.Errorf("volumes to attach: %d, want 1; without any: %d", got, p[0].Constraints.Requests[ebs])
	}
}

// TestOnlyOnePodMayHaveAClaim: the one that is bound has it, else the oldest.
func TestOnlyOnePodMayHaveAClaim(t *testing.T) {
	t.Parallel()
	s := newTestStore(atNoon)
	upsert(s, zonalClass("a"))
	claim := waitingPVC("data")
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	upsert(s, claim)
	older, younger := withClaims(pendingPod("older"), "data"), withClaims(pendingPod("younger"), "data")
	younger.CreationTimestamp = metav1.NewTime(noon.Add(-time.Second))
	gated := withClaims(pendingPod("gated"), "data")
	gated.CreationTimestamp = metav1.NewTime(noon.Add(-time.Hour))
	gated.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated
	upsert(s, gated)
	upsert(s, younger)
	upsert(s, older)
	taken := "volume claim data is for one pod only, and pod default/"
	if diff := cmp.Diff(map[string]string{"older": "topology.kubernetes.io/zone In [a]", "younger": taken + "older has it"}, asked(s.Snapshot())); diff != "" {
		t.Errorf("both wait (-want +got):\n%s", diff)
	}
	upsert(s, withClaims(boundPod("first", "n1"), "data"))
	if diff := cmp.Diff(map[string]string{"older": taken + "first has it", "younger": taken + "first has it"}, asked(s.Snapshot())); diff != "" {
		t.Errorf("another has it (-want +got):\n%s", diff)
	}
}

func TestVolumesOfANodeAreCountedOnce(t *testing.T) {
	t.Parallel()
	s := newTestStore(atNoon)
	limit := int32(3)
	csi := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
		{Name: "ebs", Allocatable: &storagev1.VolumeNodeResources{Count: &limit}}, {Name: "efs"},
	}}}
	upsert(s, testNode("n1", "kwok://n1", true))
	upsert(s, testNode("n2", "kwok://n2", true))
	for _, name := range []string{"a", "b", "left", "more"} {
		claim, pv := boundPair(name, "z")
		upsert(s, claim)
		upsert(s, pv)
	}
	upsert(s, withClaims(boundPod("p1", "n1"), "a"))
	upsert(s, withClaims(boundPod("p2", "n1"), "a"))
	attachment := func(pv string) *storagev1.VolumeAttachment {
		name := "pv-" + pv
		return &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "at-" + pv}, Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "ebs", NodeName: "n1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name},
		}}
	}
	upsert(s, attachment("a"))
	upsert(s, attachment("left"))
	expect := func(when string, used, allocatable quantity.List) {
		t.Helper()
		n := s.Snapshot().Nodes[0]
		got := []int64{n.Used[ebs], n.Allocatable[ebs]}
		if diff := cmp.Diff([]int64{used[ebs], allocatable[ebs]}, got); diff != "" {
			t.Errorf("%s: used and allocatable (-want +got):\n%s", when, diff)
		}
	}
	expect("no driver has registered", nil, nil)
	upsert(s, csi)
	expect("one volume of two pods, and one left behind", quantity.List{ebs: 2}, quantity.List{ebs: 3})
	upsert(s, withClaims(boundPod("p3", "n1"), "b", "more"))
	expect("more than there is room for", quantity.List{ebs: 3}, quantity.List{ebs: 3})
	if _, ok := s.Snapshot().Nodes[1].Allocatable[ebs]; ok {
		t.Error("the node without drivers has a limit")
	}
	remove(s, attachment("left"))
	remove(s, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID("p3")}})
	expect("after they have gone", quantity.List{ebs: 1}, quantity.List{ebs: 3})
}

// TestVolumeLimitsOfTheInstanceType: what a node's CSINode says of a driver counts, be it that there
// is no limit. Of others the instance type says it.
func TestVolumeLimitsOfTheInstanceType(t *testing.T) {
	t.Parallel()
	three := int32(3)
	for name, c := range map[string]struct {
		drivers []storagev1.CSINodeDriver
		want    int64
		limited bool
	}{
		"no driver has registered":               {nil, 25, true},
		"another driver has registered":          {[]storagev1.CSINodeDriver{{Name: "efs"}}, 25, true},
		"the driver has said its limit":          {[]storagev1.CSINodeDriver{{Name: "ebs", Allocatable: &storagev1.VolumeNodeResources{Count: &three}}}, 3, true},
		"the driver has said that there is none": {[]storagev1.CSINodeDriver{{Name: "ebs"}}, 0, false},
	} {
		s := newTestStore(atNoon)
		upsert(s, &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}, Spec: karpenterv1.NodePoolSpec{
			Template: karpenterv1.NodeClaimTemplate{Spec: karpenterv1.NodeClaimTemplateSpec{
				NodeClassRef: &karpenterv1.NodeClassReference{Group: classGroup, Kind: classKind, Name: "default"},
			}},
		}})
		sell := func(limit int64) {
			s.Pools().SetTypes(cloud.ClassRef{Group: classGroup, Kind: classKind, Name: "default"}, []*catalog.Type{{Name: "small", VolumeLimits: quantity.List{ebs: limit}}}, nil)
		}
		sell(24)
		n := testNode("n1", "kwok://n1", true)
		n.Labels[label.InstanceType] = "small"
		upsert(s, n)
		s.Snapshot()
		if sell(25); s.Snapshot().Nodes[0].Allocatable[ebs] != 25 {
			t.Errorf("%s: before, the limit is that of older types", name)
		}
		upsert(s, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: storagev1.CSINodeSpec{Drivers: c.drivers}})
		if got, limited := s.Snapshot().Nodes[0].Allocatable[ebs]; got != c.want || limited != c.limited {
			t.Errorf("%s: limit %d, %t; want %d, %t", name, got, limited, c.want, c.limited)
		}
		claim, pv := boundPair("a", "z")
		upsert(s, claim)
		upsert(s, pv)
		upsert(s, withClaims(boundPod("p1", "n1"), "a"))
		if got := s.Snapshot().Nodes[0].Used[ebs]; (got == 1) != c.limited {
			t.Errorf("%s: %d volumes are counted", name, got)
		}
	}
}

// TestWhatIsKnownOfVolumesGoes: nothing is left of objects that were deleted.
func TestWhatIsKnownOfVolumesGoes(t *testing.T) {
	t.Parallel()
	s := newTestStore(atNoon)
	claim, pv := boundPair("a", "z")
	free := pv.DeepCopy()
	free.Status.Phase = corev1.VolumeAvailable
	upsert(s, claim)
	upsert(s, free)
	if len(s.volumes.unbound[""]) != 1 {
		t.Error("a free volume is not known as one")
	}
	upsert(s, pv)
	if len(s.volumes.unbound[""]) != 0 {
		t.Error("a volume that was bound is still free")
	}
	upsert(s, free)
	upsert(s, zonalClass())
	upsert(s, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	upsert(s, &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "at"}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "n1"}})
	remove(s, claim)
	remove(s, free)
	remove(s, zonalClass())
	remove(s, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	remove(s, &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "at"}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "n1"}})
	v := s.volumes
	if n := len(v.claims) + len(v.all) + len(v.unbound) + len(v.classes) + len(v.limits) + len(v.attachments); n != 0 {
		t.Errorf("%d things are left: %+v", n, v)
	}
}
