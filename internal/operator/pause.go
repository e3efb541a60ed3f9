package operator

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
)

// PausedBySetting is why disruption is paused by the settings.
const PausedBySetting = "--pause-disruption (PAUSE_DISRUPTION) is set"

// paused returns why the settings pause disruption; empty: they do not.
func (s *Settings) paused() string {
	if s.PauseDisruption {
		return PausedBySetting
	}
	return ""
}

func pauseObject(namespace string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: mirror.PauseConfigMap}
}

// onlyPause limits the cache of ConfigMaps to the one that pauses disruption: the right to read it is for
// no other.
func onlyPause(namespace string) (client.Object, cache.ByObject) {
	return &corev1.ConfigMap{}, cache.ByObject{Namespaces: map[string]cache.Config{
		namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", mirror.PauseConfigMap)},
	}}
}
