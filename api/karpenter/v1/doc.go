// Package v1 holds the wire types of karpenter.sh/v1: the NodePool, which says
// what nodes may be made, and the NodeClaim, which asks for one of them. With
// them come the keys (labels, annotations, taints, the finalizer) that nodes,
// pods and claims carry.
//
// The types are what the API server stores and nothing more: fields, the
// markers from which the CRDs in config/crd are generated, and (un)marshalling.
// What the values mean is decided in internal/kube/translate and below it.
//
// The names of the structs and fields under NodeClaimTemplate are part of the
// NodePool's hash (internal/kube/translate, PoolHash): renaming one would make every
// node of every cluster look drifted.
//
// Read labels.go first, then nodepool.go and nodeclaim.go.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.sh
package v1
