package mirror

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// Observe takes the objects in as if the watches had just shown them, in the order
// given. It is for snapshots of what no watch shows: a test, a file. The error names the
// first kind that the mirror does not watch; objects before it are taken in.
func (s *Store) Observe(objects ...client.Object) error {
	for _, o := range objects {
		switch o := o.(type) {
		case *corev1.Pod:
			s.upsertPod(o)
		case *corev1.Node:
			s.upsertNode(o)
		case *karpenterv1.NodeClaim:
			s.upsertClaim(o)
		case *karpenterv1.NodePool:
			s.upsertPool(o)
		case *appsv1.DaemonSet:
			s.upsertDaemon(o)
		case *nodev1.RuntimeClass:
			s.upsertRuntimeClass(o)
		case *corev1.LimitRange:
			s.upsertLimitRange(o)
		case *policyv1.PodDisruptionBudget:
			s.upsertPDB(o)
		case *corev1.Service:
			s.upsertService(o)
		case *appsv1.ReplicaSet:
			s.upsertOwner(o, o.Spec.Selector)
		case *appsv1.StatefulSet:
			s.upsertOwner(o, o.Spec.Selector)
		case *corev1.Namespace:
			s.upsertNamespace(o)
		case *corev1.PersistentVolumeClaim:
			s.upsertPVC(o)
		case *corev1.PersistentVolume:
			s.upsertPV(o)
		case *storagev1.StorageClass:
			s.upsertStorageClass(o)
		case *storagev1.CSINode:
			s.upsertCSINode(o)
		case *storagev1.VolumeAttachment:
			s.upsertAttachment(o)
		case *schedulingv1beta1.PodGroup:
			s.upsertPodGroup(o)
		default:
			return fmt.Errorf("observe %T: the mirror does not watch this kind", o)
		}
	}
	return nil
}
