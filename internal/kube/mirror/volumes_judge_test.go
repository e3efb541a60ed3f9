package mirror_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

const patience = 2 * time.Minute

// TestKubeSchedulerAgreesAboutVolumes lets a real control plane bind volumes, reads from
// the mirror where it says that pods may go, and then makes nodes in three zones: each
// pod goes where the mirror said.
func TestKubeSchedulerAgreesAboutVolumes(t *testing.T) {
	t.Parallel()
	c, store := startJudge(t)
	create := func(objects ...client.Object) {
		t.Helper()
		for _, o := range objects {
			testkit.Eventually(t, patience, func() error { return client.IgnoreAlreadyExists(c.Create(t.Context(), o)) })
		}
	}
	create(
		storageClass("zonal", "ebs", storagev1.VolumeBindingWaitForFirstConsumer, "zone-b"),
		storageClass("static", "kubernetes.io/no-provisioner", storagev1.VolumeBindingWaitForFirstConsumer),
		storageClass("at-once", "ebs", storagev1.VolumeBindingImmediate),
		pv("v1", "", "zone-a"), pv("v2", "", "zone-a"), pv("v3", "", "zone-b"), pv("v4", "static", "zone-c"),
		pvc("in-a", "", "v1"), pvc("in-a-too", "", "v2"), pvc("in-b", "", "v3"),
		pvc("new", "zonal", ""), pvc("free", "static", ""), pvc("slow", "at-once", ""),
	)
	ephemeral := podWith("ephemeral")
	ephemeral.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: pvc("", "zonal", "").Spec},
	}}}}
	create(podWith("bound", "in-a"), podWith("waiting", "new"), podWith("static", "free"), ephemeral,
		podWith("nowhere", "in-a-too", "in-b"), podWith("lost", "missing"), podWith("early", "slow"))
	zone := func(z string) string { return corev1.LabelTopologyZone + " In [" + z + "]" }
	wantAsked(t, store, map[string]string{
		"bound": zone("zone-a"), "waiting": zone("zone-b"), "ephemeral": zone("zone-b"), "static": zone("zone-c"),
		"nowhere": "volume claim in-b needs other topology domains than the pod's other volumes",
		"lost":    "volume claim missing does not exist",
		"early":   "volume claim slow waits for a volume, which storage class at-once makes without a pod",
	})

	limit := int32(1)
	create(&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
		{Name: "ebs", NodeID: "a", Allocatable: &storagev1.VolumeNodeResources{Count: &limit}},
	}}})
	create(node("node-c", "zone-c"), node("node-b", "zone-b"), node("node-a", "zone-a"))
	wantPlaces(t, c, map[string]string{"bound": "node-a", "static": "node-c", "claim new": "node-b", "claim ephemeral-scratch": "node-b"})

	// Node a can attach no more, and its snapshot says so. Pods whose volumes are being made
	// are nominated for their nodes, and ask no more.
	create(podWith("second", "in-a-too"))
	wantAsked(t, store, map[string]string{
		"second":  zone("zone-a"),
		"nowhere": "volume claim in-b needs other topology domains than the pod's other volumes",
		"lost":    "volume claim missing does not exist",
		"early":   "volume claim slow waits for a volume, which storage class at-once makes without a pod",
	})
	a, name := store.Snapshot().Nodes[0], quantity.AttachPrefix+"ebs"
	if a.Name != "node-a" || a.Used[name] != 1 || a.Allocatable[name] != 1 {
		t.Errorf("%s: %d of %d volumes attached, want 1 of 1", a.Name, a.Used[name], a.Allocatable[name])
	}
}

// startJudge returns a control plane and a mirror of it.
func startJudge(t *testing.T) (client.Client, *mirror.Store) {
	t.Helper()
	devcluster := testkit.StartCluster(t)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, karpenterv1.AddToScheme} {
		must(t, add(scheme))
	}
	_, err := envtest.InstallCRDs(devcluster.Config, envtest.CRDInstallOptions{Paths: []string{"../../../config/crd"}, ErrorIfPathMissing: true})
	must(t, err)
	c, err := client.New(devcluster.Config, client.Options{Scheme: scheme})
	must(t, err)
	watches, err := cache.New(devcluster.Config, cache.Options{Scheme: scheme})
	must(t, err)
	store := mirror.NewStore(mirror.Options{
		Vocabulary: translate.NewVocabulary(nil, nil), Now: time.Now, Manages: func(string, string) bool { return false },
	})
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	synced, err := store.Feed(ctx, watches)
	must(t, err)
	go func() { _ = watches.Start(ctx) }() // ends with ctx
	testkit.Eventually(t, patience, func() error {
		if !synced() {
			return fmt.Errorf("the mirror is not whole")
		}
		return nil
	})
	return c, store
}

// wantAsked waits until the pending pods ask for just this: labels, or what is wrong.
func wantAsked(t *testing.T, store *mirror.Store, want map[string]string) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		got := map[string]string{}
		for _, p := range store.Snapshot().Pending {
			got[p.Name] = p.Constraints.Invalid
			for _, term := range p.Constraints.Terms {
				if p.Constraints.Invalid == "" {
					got[p.Name] += term.String()
				}
			}
		}
		return differs(want, got)
	})
}

// wantPlaces waits until just these pods have these nodes, and claims were given nodes to
// be made on.
func wantPlaces(t *testing.T, c client.Client, want map[string]string) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		got := map[string]string{}
		var pods corev1.PodList
		var claims corev1.PersistentVolumeClaimList
		if err := c.List(t.Context(), &pods); err != nil {
			return fmt.Errorf("list pods: %w", err)
		}
		for _, p := range pods.Items {
			if p.Spec.NodeName != "" {
				got[p.Name] = p.Spec.NodeName
			}
		}
		if err := c.List(t.Context(), &claims); err != nil {
			return fmt.Errorf("list claims: %w", err)
		}
		for _, claim := range claims.Items {
			if node := claim.Annotations["volume.kubernetes.io/selected-node"]; node != "" {
				got["claim "+claim.Name] = node
			}
		}
		return differs(want, got)
	})
}

func differs(want, got map[string]string) error {
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("(-want +got):\n%s", diff)
	}
	return nil
}

func storageClass(name, provisioner string, mode storagev1.VolumeBindingMode, zones ...string) *storagev1.StorageClass {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &mode}
	for _, z := range zones {
		c.AllowedTopologies = append(c.AllowedTopologies, corev1.TopologySelectorTerm{
			MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: corev1.LabelTopologyZone, Values: []string{z}}},
		})
	}
	return c
}

func pv(name, class, zone string) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pv.Spec.StorageClassName = class
	pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "ebs", VolumeHandle: name}
	pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
	}}}}
	return pv
}

func pvc(name, class, volume string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	c.Spec.StorageClassName, c.Spec.VolumeName = &class, volume
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	return c
}

func podWith(name string, claims ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "none"}}
	for _, claim := range claims {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
	return p
}

func node(name, zone string) *corev1.Node {
	size := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110")}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			"kwok.x-k8s.io/node": "fake", corev1.LabelHostname: name, corev1.LabelTopologyZone: zone,
		}},
		Status: corev1.NodeStatus{Capacity: size, Allocatable: size},
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
