package operator

import (
	"fmt"
	"maps"
	"slices"
)

// inert returns a line for each setting that asks for something and has no effect.
func (s *Settings) inert() []string {
	lines := append(inertGates("feature-gates", featureGatesDefault, s.FeatureGates), inertGates("aws-feature-gates", awsFeatureGatesDefault, s.AWSFeatureGates)...)
	gates, err := s.Gates()
	if err != nil {
		return lines // Validate says so
	}
	own, err := readGates("aws-feature-gates", awsFeatureGatesDefault, s.AWSFeatureGates)
	if err != nil {
		return lines // so, too
	}
	for _, c := range []struct {
		asks bool
		line string
	}{
		{s.CPURequests != 1000, fmt.Sprintf("--cpu-requests=%d has no effect: the number of workers is fixed", s.CPURequests)},
		{!s.DisableControllerWarmup, "--disable-controller-warmup=false has no effect: caches are always filled while waiting for the lease"},
		{s.LegacyNodeRepair && !gates["NodeRepair"], "--legacy-node-repair=true has no effect: the gate NodeRepair is off"},
		{gates["TerminateFirstRepair"] && !gates["NodeRepair"], "--feature-gates: TerminateFirstRepair=true has no effect: the gate NodeRepair is off"},
		{gates["TerminateFirstRepair"] && gates["NodeRepair"] && s.LegacyNodeRepair, "--feature-gates: TerminateFirstRepair=true has no effect: legacy-node-repair is on"},
		{own["RebootForRepair"] && !gates["NodeRepair"], "--aws-feature-gates: RebootForRepair=true has no effect: the gate NodeRepair is off"},
		{own["RebootForRepair"] && gates["NodeRepair"] && s.LegacyNodeRepair, "--aws-feature-gates: RebootForRepair=true has no effect: legacy-node-repair is on"},
		{own["DRANVIDIAGPU"] && s.IgnoreDRARequests, "--aws-feature-gates: DRANVIDIAGPU=true has no effect: ignore-dra-requests is true"},
		{own["DRAEFA"] && s.IgnoreDRARequests, "--aws-feature-gates: DRAEFA=true has no effect: ignore-dra-requests is true"},
		{s.observes() && gates["StaticCapacity"], "--feature-gates: StaticCapacity=true has no effect with --mode=observe: no node is launched for pools with replicas"},
		{s.observes() && gates["PodDeletionCostManagement"], "--feature-gates: PodDeletionCostManagement=true has no effect with --mode=observe: pods are not changed"},
		{s.observes() && s.InterruptionQueue != "", "--interruption-queue has no effect with --mode=observe: a message that is read is hidden from its reader"},
		{s.observes() && s.LegacyAPIs, "--legacy-apis has no effect with --mode=observe: NodePools are not made"},
		{s.CloudProvider == providerKWOK && s.provider() == providerAWS, "--cluster-name and --interruption-queue have no effect with --cloud-provider=kwok: instances are simulated"},
		{!s.uses(providerRemote) && s.RemoteSettings != (RemoteSettings{}), "the flags --provider-… have no effect without --cloud-provider=remote"},
		{!s.uses(providerClusterAPI) && s.ClusterAPISettings != (ClusterAPISettings{}), "the flags --cluster-api-… have no effect without --cloud-provider=clusterapi"},
		{s.CloudProvider == providerRemote && s.InterruptionQueue != "", "--interruption-queue has no effect with --cloud-provider=remote: the provider sends the notices"},
	} {
		if c.asks {
			lines = append(lines, c.line)
		}
	}
	return lines
}

// inertGates returns a line for each gate of a list that nobody knows.
func inertGates(flag, known, given string) []string {
	knows, err := readGates(flag, known)
	if err != nil {
		return nil
	}
	asked, err := readGates(flag, given)
	if err != nil {
		return nil // Validate says so
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		if _, isKnown := knows[name]; !isKnown {
			lines = append(lines, fmt.Sprintf("--%s: %s is no gate that Dovetail knows", flag, name))
		}
	}
	return lines
}
