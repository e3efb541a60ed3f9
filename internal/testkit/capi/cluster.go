package capi

import (
	"os/exec"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The groups of Cluster API, and the namespace and Cluster that everything is in.
const (
	CoreGroup  = "cluster.x-k8s.io"
	InfraGroup = "infrastructure.cluster.x-k8s.io"
	Namespace  = "default"
	Name       = "metal"

	bootstrapGroup    = "bootstrap.cluster.x-k8s.io"
	controlPlaneGroup = "controlplane.cluster.x-k8s.io"
	capacityPrefix    = "capacity.cluster-autoscaler.kubernetes.io/"
	clusterNameLabel  = CoreGroup + "/cluster-name"
	kubernetesVersion = "v1.37.1"

	// connectMost is how long Cluster API may take to connect to the cluster. It tries every 30 seconds.
	connectMost = 3 * time.Minute
)

// The MachineDeployments: the nodes of Metal and Alloy are of the Dev provider and are the same, those of Short never come.
const (
	Metal = "metal"
	Alloy = "alloy"
	Short = "short"
	// CPUs and Memory are what a node has.
	CPUs   = 4
	Memory = "8Gi"
)

// Cluster is a management cluster with the MachineDeployments Metal, Alloy and Short.
type Cluster struct {
	t        testing.TB
	client   client.Client
	programs string
	config   string
	managers map[string]*manager
}

// manager is a program that runs.
type manager struct {
	cmd  *exec.Cmd
	gone chan struct{} // closed when cmd has been reaped
}
