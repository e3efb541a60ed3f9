package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
)

// pageSize is how many objects are asked for at once.
const pageSize = 500

// watched returns empty lists of the kinds that have a say in what is launched, in the
// order in which a reader wants them. Secrets and configuration are not among them.
func watched() []client.ObjectList {
	return []client.ObjectList{
		&karpenterv1.NodePoolList{}, &corev1.NamespaceList{}, &karpenterv1.NodeClaimList{}, &corev1.NodeList{},
		&storagev1.StorageClassList{}, &storagev1.CSINodeList{}, &corev1.PersistentVolumeList{}, &corev1.PersistentVolumeClaimList{},
		&storagev1.VolumeAttachmentList{}, &policyv1.PodDisruptionBudgetList{},
		&corev1.LimitRangeList{}, &nodev1.RuntimeClassList{}, &appsv1.DaemonSetList{},
		&schedulingv1beta1.PodGroupList{}, &corev1.PodList{},
	}
}

// Objects reads what has a say in what is launched from a cluster, without what has none:
// how containers are run, and annotations that nobody here reads. Nothing is written.
func Objects(ctx context.Context, r client.Reader) ([]client.Object, error) {
	var all []client.Object
	for _, empty := range watched() {
		for next, more := "", true; more; more = next != "" {
			list := empty.DeepCopyObject().(client.ObjectList) // what is read adds to what there is
			err := r.List(ctx, list, client.Limit(pageSize), client.Continue(next))
			if _, optional := list.(*schedulingv1beta1.PodGroupList); optional && meta.IsNoMatchError(err) {
				break // few API servers serve them
			}
			if err != nil {
				return nil, listError(list, err)
			}
			if err := meta.EachListItem(list, func(o runtime.Object) error {
				all = append(all, bare(o.DeepCopyObject().(client.Object)))
				return nil
			}); err != nil {
				return nil, listError(list, err)
			}
			next = list.GetContinue()
		}
	}
	return all, nil
}

func listError(list client.ObjectList, err error) error {
	name := fmt.Sprintf("%T", list)
	kinds := strings.TrimSuffix(name[strings.LastIndex(name, ".")+1:], "List")
	if strings.HasSuffix(kinds, "s") {
		kinds += "e"
	}
	kinds += "s"
	switch {
	case meta.IsNoMatchError(err):
		return fmt.Errorf("read %s: the cluster does not know them; install the definitions: dovetail crds | kubectl apply --server-side --force-conflicts -f -", kinds)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("read %s: %w; the account needs list on them", kinds, err)
	}
	return fmt.Errorf("read %s: %w", kinds, err)
}

// Live returns the case of a cluster as it is: what would be launched for the pods that
// have no node. Every node class that a pool names is taken to offer the whole catalog.
func Live(ctx context.Context, r client.Reader, name string, from Catalog, at time.Time) (Case, error) {
	objects, err := Objects(ctx, r)
	if err != nil {
		return Case{}, err
	}
	m := newManifests()
	for _, o := range objects {
		if err := m.sortIn(o); err != nil {
			return Case{}, err
		}
	}
	c, err := m.question(name, from, at)
	if err != nil {
		return Case{}, err
	}
	c.Options = pack.Options{}
	if len(m.pools) == 0 {
		return Case{}, errors.New("the cluster has no NodePools, so nothing can be launched")
	}
	return c, nil
}

// bare takes what has no say from an object.
func bare(o client.Object) client.Object {
	o.SetManagedFields(nil)
	kept := map[string]string{}
	for k, v := range o.GetAnnotations() {
		if saying(k) {
			kept[k] = v
		}
	}
	if len(kept) == 0 {
		kept = nil
	}
	o.SetAnnotations(kept)
	switch o := o.(type) {
	case *corev1.Pod:
		barePod(&o.Spec)
		bareStatuses(o.Status.InitContainerStatuses)
		bareStatuses(o.Status.ContainerStatuses)
		o.Status.EphemeralContainerStatuses = nil
		o.Status.PodIP, o.Status.PodIPs, o.Status.HostIP, o.Status.HostIPs = "", nil, "", nil
	case *appsv1.DaemonSet:
		barePod(&o.Spec.Template.Spec)
		o.Spec.Template.Annotations = nil
	case *corev1.Node:
		o.Status.Images, o.Status.Addresses, o.Status.NodeInfo = nil, nil, corev1.NodeSystemInfo{}
		o.Status.VolumesInUse, o.Status.VolumesAttached, o.Status.Config = nil, nil, nil
	case *corev1.PersistentVolume:
		if csi := o.Spec.CSI; csi != nil { // the rest names secrets and places
			o.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: csi.Driver, VolumeHandle: csi.VolumeHandle}
		}
	case *storagev1.StorageClass:
		o.Parameters = nil
	case *nodev1.RuntimeClass:
		o.Handler = "none"
	case *schedulingv1beta1.PodGroup:
		o.Spec, o.Status = schedulingv1beta1.PodGroupSpec{SchedulingPolicy: o.Spec.SchedulingPolicy}, schedulingv1beta1.PodGroupStatus{}
	}
	return o
}

// saying reports whether somebody here reads an annotation.
func saying(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	return prefix == "dovetail.sh" || prefix == "karpenter.sh" || strings.HasPrefix(prefix, "karpenter.") ||
		slices.Contains([]string{
			corev1.PodDeletionCost, corev1.MirrorPodAnnotationKey, "volume.kubernetes.io/selected-node",
			"pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller", "storageclass.kubernetes.io/is-default-class",
		}, key)
}

// barePod leaves of a pod what a scheduler reads.
func barePod(spec *corev1.PodSpec) {
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			c := &list[i]
			list[i] = corev1.Container{
				Name: c.Name, Image: "none", Ports: c.Ports, Resources: c.Resources, ResizePolicy: c.ResizePolicy, RestartPolicy: c.RestartPolicy,
			}
		}
	}
	spec.EphemeralContainers, spec.ImagePullSecrets, spec.HostAliases, spec.DNSConfig, spec.SecurityContext = nil, nil, nil, nil, nil
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		source := corev1.VolumeSource{PersistentVolumeClaim: v.PersistentVolumeClaim, Ephemeral: v.Ephemeral, EmptyDir: v.EmptyDir}
		if v.HostPath != nil {
			source.HostPath = &corev1.HostPathVolumeSource{Path: "/none"}
		}
		v.VolumeSource = source
	}
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool { return v.VolumeSource == corev1.VolumeSource{} })
}

// bareStatuses leaves of containers' states what in-place resizes say.
func bareStatuses(list []corev1.ContainerStatus) {
	for i := range list {
		list[i] = corev1.ContainerStatus{Name: list[i].Name, AllocatedResources: list[i].AllocatedResources, Resources: list[i].Resources, Started: list[i].Started, Ready: list[i].Ready}
	}
}
