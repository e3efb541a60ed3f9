package oracle

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// volumeKinds are the constraints by pods' volumes.
var volumeKinds = []kind{
	{"boundVolumes", (*gen).boundVolumes},
	{"lateVolumes", (*gen).lateVolumes},
	{"ephemeralVolumes", (*gen).ephemeralVolumes},
	{"freeVolumes", (*gen).freeVolumes},
	{"attachLimits", (*gen).attachLimits},
}

// driver is the CSI driver of all volumes. The world makes its volumes when the scheduler
// has chosen a node, in that node's zone.
const driver = "disk.oracle.test"

// vary adds to what differs from pod to pod.
func (w *workload) vary(f func(i int, p *corev1.Pod)) {
	before := w.variants
	w.variants = func(i int, p *corev1.Pod) {
		if before != nil {
			before(i, p)
		}
		f(i, p)
	}
}

// usesClaims gives each pod a volume with the claim that is made for it; alike is how many
// pods share one.
func (w *workload) usesClaims(volume string, alike int, claim func(name string)) {
	done := map[string]bool{}
	w.vary(func(i int, p *corev1.Pod) {
		name := fmt.Sprintf("%s-%s-%d", w.pod.Name, volume, i/alike)
		if !done[name] {
			done[name] = true
			claim(name)
		}
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}})
	})
}

func claimOf(namespace, name, class string) corev1.PersistentVolumeClaim {
	c := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	c.Spec = claimSpec(class)
	return c
}

func claimSpec(class string) corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, StorageClassName: &class,
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}
}

// volumeIn returns a volume that nodes with these values of a label reach; no values: all.
func volumeIn(name, class, key string, values ...string) corev1.PersistentVolume {
	pv := corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	pv.Spec.StorageClassName = class
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name}
	if len(values) > 0 {
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}},
		}}}}
	}
	return pv
}

func (g *gen) boundVolumes() {
	for _, w := range g.affected() {
		alike := pick(g, 1, 1, 3)
		w.usesClaims("data", alike, func(name string) {
			c := claimOf(w.pod.Namespace, name, "")
			c.Spec.VolumeName = name
			pv := volumeIn(name, "", corev1.LabelTopologyZone)
			switch g.IntN(5) {
			case 0: // its zone is a label, as it once was
				pv.Labels = map[string]string{corev1.LabelTopologyZone: pick(g, "zone-a", "zone-b", "zone-a__zone-c")}
			case 1: // on a node's own disk
				if len(g.s.Nodes) > 0 && g.s.Nodes[0].Annotations[inFlightKey] == "" {
					pv = volumeIn(name, "", corev1.LabelHostname, pick(g, g.s.Nodes...).Name)
				}
			case 2: // anywhere
			default:
				pv = volumeIn(name, "", corev1.LabelTopologyZone, some(g, 2, allZones)...)
			}
			pv.Spec.ClaimRef = &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name}
			g.s.Claims, g.s.Volumes = append(g.s.Claims, c), append(g.s.Volumes, pv)
		})
	}
}

// lateClass makes a class whose volumes are made where the pod goes.
func (g *gen) lateClass(name, provisioner string) {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	c := storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &mode}
	if provisioner == driver && g.chance(60) {
		zones, n := some(g, 3, allZones), 1+g.IntN(2)
		for n = min(n, len(zones)); n > 0; n-- {
			c.AllowedTopologies = append(c.AllowedTopologies, corev1.TopologySelectorTerm{
				MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: corev1.LabelTopologyZone, Values: zones[:len(zones)-n+1]}},
			})
			zones = zones[len(zones)-n+1:]
		}
	}
	g.s.Storage = append(g.s.Storage, c)
}

func (g *gen) lateVolumes() {
	g.lateClass("late", driver)
	for _, w := range g.affected() {
		w.usesClaims("late", 1, func(name string) { g.s.Claims = append(g.s.Claims, claimOf(w.pod.Namespace, name, "late")) })
	}
}

func (g *gen) ephemeralVolumes() {
	g.lateClass("scratch", driver)
	for _, w := range g.affected() {
		w.pod.Spec.Volumes = append(w.pod.Spec.Volumes, corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{
			Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claimSpec("scratch")}},
		}})
	}
}

// freeVolumes makes volumes that are there and wait for a claim. There are enough.
func (g *gen) freeVolumes() {
	g.lateClass("free", "kubernetes.io/no-provisioner")
	zones := some(g, 2, allZones)
	for _, w := range g.affected() {
		w.usesClaims("free", 1, func(name string) {
			g.s.Claims = append(g.s.Claims, claimOf(w.pod.Namespace, name, "free"))
			for _, zone := range zones {
				pv := volumeIn(name+"-"+zone, "free", corev1.LabelTopologyZone, zone)
				pv.Spec.CSI, pv.Spec.Local = nil, &corev1.LocalVolumeSource{Path: "/disk"}
				g.s.Volumes = append(g.s.Volumes, pv)
			}
		})
	}
}

// attachLimits caps how many volumes nodes attach; some do not say.
func (g *gen) attachLimits() {
	for i := range g.s.Types {
		t := &g.s.Types[i]
		if g.chance(80) {
			n := int64(1 + g.IntN(3))
			t.Attach = &n
		}
		for j := range g.s.Nodes {
			if n := &g.s.Nodes[j]; t.Attach != nil && n.Labels[corev1.LabelInstanceTypeStable] == t.Name && n.Annotations[inFlightKey] == "" {
				n.Annotations = with(n.Annotations, attachKey, fmt.Sprint(*t.Attach))
			}
		}
	}
	if len(g.s.Claims)+len(g.s.Storage) == 0 {
		g.lateVolumes()
	}
}
