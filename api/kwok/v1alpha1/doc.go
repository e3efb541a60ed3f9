// Package v1alpha1 holds the wire types of karpenter.kwok.sh/v1alpha1: the
// KWOKNodeClass, the node class of the kwok provider, and the label keys of its
// instance types.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.kwok.sh
package v1alpha1
