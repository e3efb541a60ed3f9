package simulate

import (
	"cmp"
	"slices"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
)

// observeBuffers shows the mirror the CapacityBuffers and what they name, and returns what each comes
// to.
func (m *manifests) observeBuffers(store *mirror.Store) ([]Buffer, error) {
	if err := store.Observe(m.named...); err != nil {
		return nil, err
	}
	slices.SortFunc(m.buffers, func(a, b *autoscalingv1beta1.CapacityBuffer) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	var out []Buffer
	for _, cb := range m.buffers {
		if cb.DeletionTimestamp != nil {
			continue
		}
		if err := store.Observe(cb); err != nil {
			return nil, err
		}
		if r, known := store.Buffers().Resolve(cb); known {
			out = append(out, Buffer{cb.Namespace + "/" + cb.Name, r.Chunks, r.Message})
		}
	}
	return out, nil
}
