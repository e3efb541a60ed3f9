// Package v1beta1 holds the wire types of autoscaling.x-k8s.io/v1beta1: the
// CapacityBuffer, which asks for room to be kept free for pods that do not
// exist yet.
//
// The API is SIG Autoscaling's and is shared with other autoscalers. It is acted on
// with the feature gate CapacityBuffer.
//
// +kubebuilder:object:generate=true
// +groupName=autoscaling.x-k8s.io
package v1beta1
