package simulate

import (
	"context"
	"errors"
	"fmt"
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

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// pageSize is how many objects are asked for at once.
const pageSize = 500

// watched returns empty lists of the kinds that have a say in what is launched, in the
// order in which a reader wants them. Secrets and configuration are not among them. What CapacityBuffers
// name is read for them alone.
func watched() []client.ObjectList {
	return []client.ObjectList{
		&karpenterv1.NodePoolList{}, &corev1.NamespaceList{}, &karpenterv1.NodeClaimList{}, &corev1.NodeList{},
		&storagev1.StorageClassList{}, &storagev1.CSINodeList{}, &corev1.PersistentVolumeList{}, &corev1.PersistentVolumeClaimList{},
		&storagev1.VolumeAttachmentList{}, &policyv1.PodDisruptionBudgetList{},
		&corev1.LimitRangeList{}, &nodev1.RuntimeClassList{}, &appsv1.DaemonSetList{},
		&schedulingv1beta1.PodGroupList{}, &autoscalingv1beta1.CapacityBufferList{}, &corev1.PodList{},
	}
}

// optional reports whether an API server need not serve a kind of lists.
func optional(list client.ObjectList) bool {
	switch list.(type) {
	case *schedulingv1beta1.PodGroupList, *autoscalingv1beta1.CapacityBufferList:
		return true
	default:
		return false
	}
}

// Objects reads what has a say in what is launched from a cluster, without what has none:
// how containers are run, and annotations that nobody here reads. Nothing is written.
func Objects(ctx context.Context, r client.Reader) ([]client.Object, error) {
	var all []client.Object
	for _, empty := range watched() {
		objects, err := listed(ctx, r, empty, optional(empty))
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	named, err := namedByBuffers(ctx, r, all)
	return append(all, named...), err
}

// listed reads all objects of a kind, page by page. Of a kind that the API server need not serve (mayLack) there are
// none if it does not.
func listed(ctx context.Context, r client.Reader, empty client.ObjectList, mayLack bool) (all []client.Object, err error) {
	for next, more := "", true; more; more = next != "" {
		list := empty.DeepCopyObject().(client.ObjectList) // what is read adds to what there is
		err := r.List(ctx, list, client.Limit(pageSize), client.Continue(next))
		if mayLack && meta.IsNoMatchError(err) {
			return nil, nil
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
	return all, nil
}

// namedByBuffers reads the pod templates and workloads that CapacityBuffers among the objects name,
// and no others.
func namedByBuffers(ctx context.Context, r client.Reader, objects []client.Object) (named []client.Object, err error) {
	kinds := map[string]client.Object{
		"PodTemplate": &corev1.PodTemplate{}, "Deployment": &appsv1.Deployment{}, "ReplicaSet": &appsv1.ReplicaSet{}, "StatefulSet": &appsv1.StatefulSet{},
	}
	seen := map[string]bool{}
	for _, o := range objects {
		cb, is := o.(*autoscalingv1beta1.CapacityBuffer)
		if !is {
			continue
		}
		kind, name := "PodTemplate", ""
		switch ref := cb.Spec.ScalableRef; {
		case cb.Spec.PodTemplateRef != nil:
			name = cb.Spec.PodTemplateRef.Name
		case ref != nil:
			kind, name = ref.Kind, ref.Name
		}
		key := strings.Join([]string{kind, cb.Namespace, name}, "/")
		if kinds[kind] == nil || name == "" || seen[key] {
			continue
		}
		seen[key] = true
		of := kinds[kind].DeepCopyObject().(client.Object)
		switch err := r.Get(ctx, client.ObjectKey{Namespace: cb.Namespace, Name: name}, of); {
		case apierrors.IsNotFound(err): // the buffer is not ready, then
		case err != nil:
			return nil, fmt.Errorf("read %s, which CapacityBuffer %s/%s names: %w", key, cb.Namespace, cb.Name, err)
		default:
			named = append(named, bare(of))
		}
	}
	return named, nil
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
		if translate.ReadsAnnotation(k) {
			kept[k] = v
		}
	}
	if len(kept) == 0 {
		kept = nil
	}
	o.SetAnnotations(kept)
	switch o := o.(type) {
	case *corev1.Pod:
		translate.TrimPodSpec(&o.Spec)
		translate.TrimStatuses(o.Status.InitContainerStatuses)
		translate.TrimStatuses(o.Status.ContainerStatuses)
		o.Status.EphemeralContainerStatuses = nil
		o.Status.PodIP, o.Status.PodIPs, o.Status.HostIP, o.Status.HostIPs = "", nil, "", nil
	case *appsv1.DaemonSet:
		bareTemplate(&o.Spec.Template)
	case *appsv1.Deployment:
		bareTemplate(&o.Spec.Template)
	case *appsv1.ReplicaSet:
		bareTemplate(&o.Spec.Template)
	case *appsv1.StatefulSet:
		bareTemplate(&o.Spec.Template)
		o.Spec.VolumeClaimTemplates = nil
	case *corev1.PodTemplate:
		bareTemplate(&o.Template)
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

func bareTemplate(t *corev1.PodTemplateSpec) {
	translate.TrimPodSpec(&t.Spec)
	t.Annotations = nil
}
