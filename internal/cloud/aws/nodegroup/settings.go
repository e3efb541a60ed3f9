package nodegroup

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// ParseFlags reads a container's command line: --name=value, --name value, --name.
func ParseFlags(args []string) map[string]string {
	flags := map[string]string{}
	for i := 0; i < len(args); i++ {
		if !strings.HasPrefix(args[i], "-") {
			continue
		}
		name, value, has := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		if !has && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			i++
			value, has = args[i], true
		}
		if !has {
			value = "true"
		}
		if before, twice := flags[name]; twice {
			value = before + "," + value
		}
		flags[name] = value
	}
	return flags
}

// ParsePriorities reads the key priorities of the ConfigMap cluster-autoscaler-priority-expander.
func ParsePriorities(text string) (map[int][]string, error) {
	var out map[int][]string
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		return nil, fmt.Errorf("ConfigMap cluster-autoscaler-priority-expander, key priorities: it must have lists of patterns by priority: %w", err)
	}
	for priority, patterns := range out {
		for _, p := range patterns {
			if _, err := regexp.Compile(p); err != nil {
				return nil, fmt.Errorf("ConfigMap cluster-autoscaler-priority-expander, priority %d: %w", priority, err)
			}
		}
	}
	return out, nil
}

// Status is what the ConfigMap cluster-autoscaler-status says of a group.
type Status struct {
	Name              string
	Min, Max, Desired int
	Backoff           string
}

// ParseStatus reads the key status of that ConfigMap: YAML, as it is since Kubernetes 1.30. Before that it was
// a text for people, which is an error here.
func ParseStatus(text string) ([]Status, error) {
	var read struct {
		NodeGroups []struct {
			Name   string
			Health struct {
				CloudProviderTarget, MinSize, MaxSize int
			}
			ScaleUp struct {
				BackoffInfo struct{ ErrorCode, ErrorMessage string }
			}
		}
	}
	if err := yaml.Unmarshal([]byte(text), &read); err != nil || len(read.NodeGroups) == 0 && !strings.Contains(text, "autoscalerStatus") {
		return nil, fmt.Errorf("ConfigMap cluster-autoscaler-status: key status is not the YAML that Cluster Autoscaler writes since 1.30; sizes of groups are not known")
	}
	var out []Status
	for _, g := range read.NodeGroups {
		out = append(out, Status{
			Name: g.Name, Min: g.Health.MinSize, Max: g.Health.MaxSize, Desired: g.Health.CloudProviderTarget,
			Backoff: strings.TrimPrefix(strings.TrimSuffix(g.ScaleUp.BackoffInfo.ErrorCode+": "+g.ScaleUp.BackoffInfo.ErrorMessage, ": "), ": "),
		})
	}
	return out, nil
}

const (
	nodeTemplateTag = "k8s.io/cluster-autoscaler/node-template/"
	optionsTag      = "k8s.io/cluster-autoscaler/node-template/autoscaling-options/"
)

// AddTags adds what the tags for Cluster Autoscaler say of a group, and returns the tags that are not for it.
func (g *Group) AddTags(tags map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		value := tags[key]
		if option, is := strings.CutPrefix(key, optionsTag); is {
			put(&g.Autoscaling, option, value)
			continue
		}
		kind, name, _ := strings.Cut(strings.TrimPrefix(key, nodeTemplateTag), "/")
		switch {
		case !strings.HasPrefix(key, nodeTemplateTag):
			if own(key) {
				put(&g.Tags, key, value)
			}
		case kind == "label":
			put(&g.Labels, name, value)
		case kind == "resources":
			put(&g.Resources, name, value)
		case kind == "taint":
			text, effect, _ := strings.Cut(value, ":")
			t := corev1.Taint{Key: name, Value: text, Effect: corev1.TaintEffect(effect)}
			if !slices.Contains(g.Taints, t) {
				g.Taints = append(g.Taints, t)
			}
		}
	}
}

// own reports whether people have set a tag, rather than AWS, EKS or Cluster Autoscaler.
func own(key string) bool {
	for _, prefix := range []string{"aws:", "eks:", "k8s.io/cluster-autoscaler/", "kubernetes.io/cluster/"} {
		if strings.HasPrefix(key, prefix) {
			return false
		}
	}
	return key != "Name"
}

func put(m *map[string]string, key, value string) {
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[key] = value
}

// equivalents say what becomes of Cluster Autoscaler's flags. A text with %s has the value in it.
func equivalents() map[string]string {
	none := "no equivalent: "
	return map[string]string{
		"expander":                               "the cheapest nodes that hold all pending pods are launched; priorities become weights",
		"balance-similar-node-groups":            "groups that differ in their subnets alone become one NodePool; spread pods over zones by topologySpreadConstraints",
		"node-group-auto-discovery":              "used to find the groups",
		"nodes":                                  "used to find the groups",
		"scale-down-unneeded-time":               "consolidateAfter of each NodePool",
		"scale-down-enabled":                     "consolidateAfter of each NodePool, which is Never for false",
		"expendable-pods-priority-cutoff":        "setting --expendable-pods-priority-cutoff=%s",
		"new-pod-scale-up-delay":                 none + "set the annotation cluster-autoscaler.kubernetes.io/pod-scale-up-delay of pods, or --batch-max-duration",
		"max-nodes-total":                        "limits.nodes, for each NodePool by itself: divide %s among them",
		"cores-total":                            "limits.cpu, for each NodePool by itself: divide the upper bound of %s among them",
		"memory-total":                           "limits.memory, for each NodePool by itself: divide the upper bound of %s (GiB) among them",
		"gpu-total":                              "limits of the resource, for each NodePool by itself (%s)",
		"scale-down-utilization-threshold":       none + "a node is removed if that saves money, whatever its utilization",
		"scale-down-gpu-utilization-threshold":   none + "a node is removed if that saves money, whatever its utilization",
		"scale-down-unready-time":                "the feature gate NodeRepair replaces nodes that stay unhealthy",
		"scale-down-delay-after-add":             none + "consolidateAfter counts for each node by itself",
		"scale-down-delay-after-delete":          none + "consolidateAfter counts for each node by itself",
		"scale-down-delay-after-failure":         none + "a NodePool is paused when its replacements fail",
		"scale-down-simulation-timeout":          none + "decisions have a bound of their own",
		"max-empty-bulk-delete":                  "spec.disruption.budgets with reasons [Empty]",
		"max-scale-down-parallelism":             "spec.disruption.budgets",
		"max-drain-parallelism":                  "spec.disruption.budgets",
		"max-graceful-termination-sec":           none + "pods have their own terminationGracePeriodSeconds; spec.template.spec.terminationGracePeriod bounds the whole drain",
		"max-node-provision-time":                none + "a node that does not register in 15 minutes is replaced",
		"max-pod-eviction-time":                  "spec.template.spec.terminationGracePeriod bounds the whole drain",
		"skip-nodes-with-local-storage":          none + "pods with local storage are evicted; dovetail doctor --migrate-from cluster-autoscaler lists them",
		"skip-nodes-with-system-pods":            none + "pods of kube-system are evicted; give them PodDisruptionBudgets",
		"skip-nodes-with-custom-controller-pods": none + "pods of any controller are evicted; give them PodDisruptionBudgets",
		"min-replica-count":                      none + "give workloads PodDisruptionBudgets",
		"enforce-node-group-min-size":            none + "NodePools have no smallest size; a CapacityBuffer or a static NodePool keeps room",
		"ignore-daemonsets-utilization":          none + "a node is removed if that saves money, whatever its utilization",
		"ignore-mirror-pods-utilization":         none + "a node is removed if that saves money, whatever its utilization",
		"max-total-unready-percentage":           none + "repair stops by itself when a fifth of a NodePool is unhealthy",
		"ok-total-unready-count":                 none + "repair stops by itself when a fifth of a NodePool is unhealthy",
		"balancing-ignore-label":                 none + "groups with different labels become different NodePools",
		"startup-taint":                          "spec.template.spec.startupTaints (%s)",
		"status-taint":                           none + "taints keep pods away as kube-scheduler has it (%s)",
		"ignore-taint":                           "spec.template.spec.startupTaints (%s)",
		"daemonset-eviction-for-empty-nodes":     none + "DaemonSet pods end with their node",
		"daemonset-eviction-for-occupied-nodes":  none + "DaemonSet pods end with their node",
	}
}

// operational are flags that say how the program runs, and nothing of nodes.
func operational(flag string) bool {
	return slices.Contains([]string{
		"cloud-provider", "namespace", "v", "logtostderr", "alsologtostderr", "stderrthreshold", "kubeconfig", "cluster-name", "address", "cloud-config",
		"aws-use-static-instance-list", "scan-interval", "write-status-configmap", "status-config-map-name", "record-duplicated-events", "logging-format", "profiling", "kube-client-qps", "kube-client-burst", "regional",
	}, flag) || strings.HasPrefix(flag, "leader-elect")
}

// Note says what has no equivalent, or what to do by hand. Group is empty if it is about Cluster Autoscaler.
type Note struct{ Group, Text string }

// notes says what becomes of each flag that says something of nodes.
func (a *Autoscaler) notes() (notes []Note) {
	known := equivalents()
	for _, flag := range slices.Sorted(maps.Keys(a.Flags)) {
		value, text := a.Flags[flag], known[flag]
		switch {
		case operational(flag):
			continue
		case text == "":
			text = "no equivalent"
		case strings.Contains(text, "%s"):
			text = fmt.Sprintf(text, value)
		}
		notes = append(notes, Note{Text: fmt.Sprintf("--%s=%s: %s", flag, value, text)})
	}
	return notes
}

// weights returns the weight of each group that the priority expander names, from 1 to 100 in the order of
// the priorities.
func (a *Autoscaler) weights(groups []Group) map[string]int {
	priorities := slices.Sorted(maps.Keys(a.Priorities))
	if len(priorities) == 0 {
		return nil
	}
	scale := func(i int) int { return priorities[i] }
	if priorities[0] < 1 || priorities[len(priorities)-1] > 100 {
		scale = func(i int) int { return max(1, 100*(i+1)/len(priorities)) }
	}
	weights := map[string]int{}
	for i, priority := range priorities { // the highest that matches counts
		for _, pattern := range a.Priorities[priority] {
			re, err := regexp.Compile(pattern)
			if err != nil {
				continue
			}
			for j := range groups {
				if re.MatchString(groups[j].Name) {
					weights[groups[j].Name] = scale(i)
				}
			}
		}
	}
	return weights
}

func positive(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n > 0
}
