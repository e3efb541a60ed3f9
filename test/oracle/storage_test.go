package oracle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// provision makes volumes for claims for which the scheduler has chosen a node, as a
// driver's provisioner does. It returns when ctx ends.
func (w *world) provision(ctx context.Context, informer cache.SharedIndexInformer) error {
	chosen := make(chan *corev1.PersistentVolumeClaim, 1000)
	see := func(o any) {
		c, ok := o.(*corev1.PersistentVolumeClaim)
		if ok && c.Spec.VolumeName == "" && c.Annotations[volume.AnnSelectedNode] != "" && c.Annotations[volume.AnnStorageProvisioner] == driver {
			chosen <- c
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, o any) { see(o) }}); err != nil {
		return err
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case c := <-chosen:
				w.makeVolume(ctx, c)
			}
		}
	}()
	return nil
}

// makeVolume makes one where the node is. What goes wrong is seen by who waits for it.
func (w *world) makeVolume(ctx context.Context, c *corev1.PersistentVolumeClaim) {
	n, err := w.nodes.Get(c.Annotations[volume.AnnSelectedNode])
	if err != nil {
		return
	}
	pv := volumeIn("made-"+string(c.UID), *c.Spec.StorageClassName, corev1.LabelTopologyZone, n.Labels[corev1.LabelTopologyZone])
	pv.Labels = map[string]string{laneKey: n.Labels[laneKey]}
	pv.Annotations = map[string]string{volume.AnnDynamicallyProvisioned: driver}
	pv.Spec.ClaimRef = &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name, UID: c.UID}
	_, _ = w.client.CoreV1().PersistentVolumes().Create(ctx, &pv, metav1.CreateOptions{})
}

// setStorage makes the scenario's storage and waits until what is bound is so.
func (r *run) setStorage(ctx context.Context) error {
	for i := range r.s.Storage {
		if _, err := r.client.StorageV1().StorageClasses().Create(ctx, &r.s.Storage[i], metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create storage class %s: %w", r.s.Storage[i].Name, err)
		}
	}
	for i := range r.s.Volumes {
		if _, err := r.client.CoreV1().PersistentVolumes().Create(ctx, &r.s.Volumes[i], metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create volume %s: %w", r.s.Volumes[i].Name, err)
		}
	}
	for i := range r.s.Claims {
		c := &r.s.Claims[i]
		if _, err := r.client.CoreV1().PersistentVolumeClaims(c.Namespace).Create(ctx, c, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create volume claim %s: %w", c.Name, err)
		}
	}
	if len(r.s.Claims)+len(r.s.Volumes) == 0 {
		return nil
	}
	return until(ctx, func() error {
		for i := range r.s.Claims {
			c, err := r.pvcs.PersistentVolumeClaims(r.s.Claims[i].Namespace).Get(r.s.Claims[i].Name)
			if err != nil {
				return err
			}
			if c.Spec.VolumeName != "" && c.Status.Phase != corev1.ClaimBound {
				return fmt.Errorf("volume claim %s is %s", c.Name, c.Status.Phase)
			}
		}
		for i := range r.s.Volumes {
			pv, err := r.pvs.Get(r.s.Volumes[i].Name)
			if err != nil {
				return err
			}
			if pv.Status.Phase == "" || pv.Status.Phase == corev1.VolumePending {
				return fmt.Errorf("volume %s is %s", pv.Name, pv.Status.Phase)
			}
		}
		return nil
	})
}

// claimed waits until the claims of ephemeral volumes are there.
func (r *run) claimed(ctx context.Context) error {
	return until(ctx, func() error {
		pods, err := r.lanePods()
		if err != nil {
			return err
		}
		for _, p := range pods {
			for _, c := range translate.ClaimsOf(p) {
				if _, err := r.pvcs.PersistentVolumeClaims(p.Namespace).Get(c.Name); err != nil && c.Ephemeral {
					return err
				}
			}
		}
		return nil
	})
}

// volumesChosen reports whether the scheduler has a node for a pod and waits for its volumes,
// which takes it a second or more.
func (r *run) volumesChosen(p *corev1.Pod) bool {
	return slices.ContainsFunc(translate.ClaimsOf(p), func(u translate.PodClaim) bool {
		c, err := r.pvcs.PersistentVolumeClaims(p.Namespace).Get(u.Name)
		if err != nil {
			return false
		}
		had := slices.ContainsFunc(r.s.Claims, func(o corev1.PersistentVolumeClaim) bool {
			return o.Namespace == c.Namespace && o.Name == c.Name && o.Spec.VolumeName != ""
		})
		return !had && (c.Spec.VolumeName != "" || c.Annotations[volume.AnnSelectedNode] != "")
	})
}

// storage returns all that the lane has of it, as the API server has it.
func (r *run) storage() (objects []client.Object, err error) {
	for i := range r.s.Storage {
		objects = append(objects, &r.s.Storage[i])
	}
	pvs, err := r.pvs.List(labels.SelectorFromSet(labels.Set{laneKey: r.id}))
	if err != nil {
		return nil, err
	}
	for _, pv := range pvs {
		objects = append(objects, pv)
	}
	for _, ns := range r.spaces {
		claims, err := r.pvcs.PersistentVolumeClaims(ns.Name).List(labels.Everything())
		if err != nil {
			return nil, err
		}
		for _, c := range claims {
			objects = append(objects, c)
		}
	}
	for _, n := range r.csiNodes {
		objects = append(objects, n)
	}
	return objects, nil
}

// attaches says how many volumes a node can attach, if it is to say so: before the node is
// there, as the scheduler takes a node that does not say for one that attaches any number.
func (r *run) attaches(ctx context.Context, n *corev1.Node) error {
	text := n.Annotations[attachKey]
	if text == "" {
		return nil
	}
	most, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return fmt.Errorf("node %s: annotation %s: %w", n.Name, attachKey, err)
	}
	count := int32(most)
	made, err := r.client.StorageV1().CSINodes().Create(ctx, &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{laneKey: r.id}},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
			Name: driver, NodeID: n.Name, Allocatable: &storagev1.VolumeNodeResources{Count: &count},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create CSI node %s: %w", n.Name, err)
	}
	r.csiNodes = append(r.csiNodes, made)
	return nil
}

// clearStorage removes all storage of a run.
func (l *lane) clearStorage(ctx context.Context, id string) error {
	now := int64(0)
	deletion := metav1.DeleteOptions{GracePeriodSeconds: &now}
	byRun := metav1.ListOptions{LabelSelector: laneKey + "=" + id}
	freed := []byte(`{"metadata":{"finalizers":null}}`)
	var all []error
	for _, ns := range l.spaces {
		claims, err := l.pvcs.PersistentVolumeClaims(ns.Name).List(labels.Everything())
		all = append(all, err)
		for _, c := range claims {
			all = append(all, gone(l.client.CoreV1().PersistentVolumeClaims(ns.Name).Delete(ctx, c.Name, deletion)))
			_, err := l.client.CoreV1().PersistentVolumeClaims(ns.Name).Patch(ctx, c.Name, types.MergePatchType, freed, metav1.PatchOptions{})
			all = append(all, gone(err))
		}
	}
	pvs, err := l.pvs.List(labels.SelectorFromSet(labels.Set{laneKey: id}))
	all = append(all, err)
	for _, pv := range pvs {
		all = append(all, gone(l.client.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, deletion)))
		_, err := l.client.CoreV1().PersistentVolumes().Patch(ctx, pv.Name, types.MergePatchType, freed, metav1.PatchOptions{})
		all = append(all, gone(err))
	}
	all = append(all,
		l.client.StorageV1().StorageClasses().DeleteCollection(ctx, deletion, byRun),
		l.client.StorageV1().CSINodes().DeleteCollection(ctx, deletion, byRun),
	)
	return errors.Join(all...)
}

// left returns an error while the watches still show claims or volumes of a run.
func (l *lane) left(id string) error {
	for _, ns := range l.spaces {
		claims, err := l.pvcs.PersistentVolumeClaims(ns.Name).List(labels.Everything())
		if err != nil || len(claims) > 0 {
			return errors.Join(err, fmt.Errorf("%d volume claims are left", len(claims)))
		}
	}
	pvs, err := l.pvs.List(labels.SelectorFromSet(labels.Set{laneKey: id}))
	if err != nil || len(pvs) > 0 {
		return errors.Join(err, fmt.Errorf("%d volumes are left", len(pvs)))
	}
	return nil
}

func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// enactStorage gives what all lanes share names and labels of the run's own.
func (s *scenario) enactStorage(id string, namespaces map[string]string) {
	own := func(name string) string {
		if name == "" {
			return ""
		}
		return id + "-" + name
	}
	for i := range s.Storage {
		c := &s.Storage[i]
		c.Name, c.Labels = own(c.Name), with(c.Labels, laneKey, id)
	}
	for i := range s.Volumes {
		pv := &s.Volumes[i]
		pv.Name, pv.Labels, pv.Spec.StorageClassName = own(pv.Name), with(pv.Labels, laneKey, id), own(pv.Spec.StorageClassName)
		if pv.Spec.ClaimRef != nil {
			pv.Spec.ClaimRef.Namespace = namespaces[pv.Spec.ClaimRef.Namespace]
		}
		if pv.Spec.NodeAffinity == nil {
			continue
		}
		for _, t := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
			for _, e := range t.MatchExpressions {
				for v := range e.Values {
					if e.Key == corev1.LabelHostname {
						e.Values[v] = own(e.Values[v])
					}
				}
			}
		}
	}
	for i := range s.Claims {
		c := &s.Claims[i]
		c.Namespace = namespaces[c.Namespace]
		c.Spec.VolumeName = own(c.Spec.VolumeName)
		ownClass(&c.Spec, own)
	}
	for _, pods := range [][]corev1.Pod{s.Running, s.Pending} {
		for i := range pods {
			for v := range pods[i].Spec.Volumes {
				if e := pods[i].Spec.Volumes[v].Ephemeral; e != nil {
					ownClass(&e.VolumeClaimTemplate.Spec, own)
				}
			}
		}
	}
}

func ownClass(spec *corev1.PersistentVolumeClaimSpec, own func(string) string) {
	class := own(*spec.StorageClassName)
	spec.StorageClassName = &class
}

// withoutUnused drops claims that no pod uses any more, and the volumes that only they could.
func (s *scenario) withoutUnused() {
	used := map[string]bool{}
	for _, p := range slices.Concat(s.Running, s.Pending) {
		for _, c := range translate.ClaimsOf(&p) {
			used[c.Name] = true
		}
	}
	s.Claims = slices.DeleteFunc(s.Claims, func(c corev1.PersistentVolumeClaim) bool { return !used[c.Name] })
	s.Volumes = slices.DeleteFunc(s.Volumes, func(pv corev1.PersistentVolume) bool {
		return pv.Spec.ClaimRef != nil && !used[pv.Spec.ClaimRef.Name]
	})
}
