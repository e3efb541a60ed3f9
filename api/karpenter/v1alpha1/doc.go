// Package v1alpha1 holds the wire types of karpenter.sh/v1alpha1: the
// NodeOverlay, by which a user corrects the price of offerings or adds capacity
// that the provider does not know of.
//
// The API server serves it; nothing acts on it yet.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.sh
package v1alpha1
