// Package v1alpha1 holds the wire types of karpenter.cluster.x-k8s.io/v1alpha1: the ClusterAPINodeClass,
// the node class of the provider for Cluster API, and the label keys of its instance types.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.cluster.x-k8s.io
package v1alpha1
