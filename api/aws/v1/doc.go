// Package v1 holds the wire types of karpenter.k8s.aws/v1: the EC2NodeClass, which says
// how EC2 instances are made into nodes, and the keys (labels, annotations, tags,
// resources) that the AWS provider gives meaning to.
//
// The types are what the API server stores and nothing more. What the values mean is
// decided in internal/cloud/aws and below it.
//
// Read labels.go first, then ec2nodeclass.go and status.go.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.k8s.aws
package v1
