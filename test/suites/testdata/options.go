package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// A client of DRAConfigs needs the options of its requests in their group and version. Karpenter
// 1.15.0 registers the objects alone, so its suite and its driver can create and update none.
func init() {
	SchemeBuilder.Register(func(s *runtime.Scheme) error {
		metav1.AddToGroupVersion(s, GroupVersion)
		return nil
	})
}
