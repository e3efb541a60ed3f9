package aws

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// The conditions of a Node that say that its instance is broken. Those beyond Ready are set by EKS'
// node monitoring agent.
const (
	acceleratedHardwareReady = "AcceleratedHardwareReady"
	storageReady             = "StorageReady"
	networkingReady          = "NetworkingReady"
	kernelReady              = "KernelReady"
	containerRuntimeReady    = "ContainerRuntimeReady"
)

// The errors of NVIDIA's driver that a reboot clears, and those that only another instance does.
const (
	errorsReboot  = "XID(46|48|54|62|63|95|109|110|136|140|143|155|156|158)"
	errorsReplace = "XID(64|74|79|119|120)"
)

// RepairPolicies says how long a node may have a condition that means a broken instance.
func (p *Provider) RepairPolicies() []cloud.RepairPolicy {
	return repairPolicies(p.opts.RebootForRepair)
}

// repairPolicies returns the policies. With reboots, errors of accelerators that a reboot clears are
// repaired by one; else these nodes are replaced, too.
func repairPolicies(reboots bool) []cloud.RepairPolicy {
	const usual, soon = 30 * time.Minute, 10 * time.Minute
	of := func(condition string, status corev1.ConditionStatus, reason string, toleration, grace time.Duration) cloud.RepairPolicy {
		return cloud.RepairPolicy{
			ConditionType: condition, ConditionStatus: string(status), ReasonRegex: reason,
			Toleration: toleration, TerminationGracePeriod: &grace, Action: cloud.ReplaceNode,
		}
	}
	driver := of(acceleratedHardwareReady, corev1.ConditionFalse, errorsReboot, soon, 5*time.Minute)
	if reboots {
		driver.Action = cloud.RebootNode
	}
	return []cloud.RepairPolicy{
		of(string(corev1.NodeReady), corev1.ConditionFalse, ".*", usual, soon),
		of(string(corev1.NodeReady), corev1.ConditionUnknown, ".*", usual, soon),
		driver,
		of(acceleratedHardwareReady, corev1.ConditionFalse, errorsReplace, soon, 5*time.Minute),
		of(acceleratedHardwareReady, corev1.ConditionFalse, "", usual, soon), // for all other reasons
		of(storageReady, corev1.ConditionFalse, ".*", usual, soon),
		of(networkingReady, corev1.ConditionFalse, ".*", usual, soon),
		of(kernelReady, corev1.ConditionFalse, ".*", usual, soon),
		of(containerRuntimeReady, corev1.ConditionFalse, ".*", usual, soon),
	}
}

// LegacyRepairPolicies returns the policies of Karpenter 1.14, in which errors of accelerators are all
// the same.
func (p *Provider) LegacyRepairPolicies() []cloud.RepairPolicy {
	policies := slices.DeleteFunc(repairPolicies(false), func(p cloud.RepairPolicy) bool {
		return p.ConditionType == acceleratedHardwareReady && p.ReasonRegex != ""
	})
	for i := range policies {
		if policies[i].ConditionType == acceleratedHardwareReady {
			policies[i].Toleration = 10 * time.Minute
		}
	}
	return policies
}
