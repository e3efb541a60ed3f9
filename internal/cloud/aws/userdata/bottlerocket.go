package userdata

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/pelletier/go-toml/v2"
)

// bottlerocket returns the user's settings with ours in their place: of what both set, ours
// hold, and labels are put together.
func bottlerocket(n *Node) (string, error) {
	document := map[string]any{}
	if err := toml.Unmarshal([]byte(n.Custom), &document); err != nil {
		return "", fmt.Errorf("spec.userData: not TOML: %w", err)
	}
	kubernetes, err := tables(document, "settings", "kubernetes")
	if err != nil {
		return "", err
	}
	labels, err := tables(document, "settings", "kubernetes", "node-labels")
	if err != nil {
		return "", err
	}
	for key, value := range n.nodeLabels() {
		labels[key] = value
	}
	n.setKubernetes(kubernetes)
	if n.raid() {
		commands, err := tables(document, "settings", "bootstrap-commands")
		if err != nil {
			return "", err
		}
		commands["000-mount-instance-storage"] = map[string]any{"commands": mountCommands(n.ImageVersion), "essential": true, "mode": "always"}
	}
	text, err := toml.Marshal(document)
	if err != nil {
		return "", fmt.Errorf("spec.userData: %w", err)
	}
	return string(text), nil
}

// setKubernetes sets what we say of settings.kubernetes.
func (n *Node) setKubernetes(settings map[string]any) {
	k := &n.Kubelet
	settings["api-server"], settings["cluster-name"] = n.Cluster.Endpoint, n.Cluster.Name
	settings["max-pods"] = k.MaxPods
	if n.Cluster.CA != "" {
		settings["cluster-certificate"] = n.Cluster.CA
	}
	if dns := n.dns(); dns != "" {
		settings["cluster-dns-ip"] = dns
	}
	taints := map[string][]string{}
	for _, t := range n.taints() {
		taints[t.Key] = append(taints[t.Key], t.Value+":"+t.Effect)
	}
	settings["node-taints"] = taints
	for key, list := range map[string]map[string]string{
		"system-reserved": k.SystemReserved, "kube-reserved": k.KubeReserved,
		"eviction-hard": n.evictionHard(), "eviction-soft": k.EvictionSoft, "eviction-soft-grace-period": k.EvictionSoftGracePeriod,
	} {
		if len(list) > 0 {
			settings[key] = list
		}
	}
	if k.EvictionMaxPodGracePeriod > 0 {
		settings["eviction-max-pod-grace-period"] = k.EvictionMaxPodGracePeriod
	}
	for key, percent := range map[string]*int32{"image-gc-high-threshold-percent": k.ImageGCHighThresholdPercent, "image-gc-low-threshold-percent": k.ImageGCLowThresholdPercent} {
		if percent != nil {
			settings[key] = strconv.Itoa(int(*percent))
		}
	}
	if k.CPUCFSQuota != nil {
		settings["cpu-cfs-quota-enforced"] = *k.CPUCFSQuota
	}
}

// tables returns the table at a path, made where it is not there.
func tables(document map[string]any, path ...string) (map[string]any, error) {
	at := "spec.userData: "
	for i, key := range path {
		if i > 0 {
			at += "."
		}
		at += key
		if document[key] == nil {
			document[key] = map[string]any{}
		}
		table, ok := document[key].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s is not a table", at)
		}
		document = table
	}
	return document, nil
}

// imageVersion finds major and minor of a version such as 1.46.0.
var imageVersion = regexp.MustCompile(`(?:^|[^0-9.])([0-9]+)\.([0-9]+)\.[0-9]+`)

// mountCommands returns the commands that put the instance's own disks together. From 1.46
// on the image knows by itself what belongs on them.
func mountCommands(version string) [][]string {
	bind := []string{"apiclient", "ephemeral-storage", "bind"}
	const major, minor = 1, 46
	knows := version == "latest"
	if found := imageVersion.FindStringSubmatch(version); found != nil {
		a, _ := strconv.Atoi(found[1])
		b, _ := strconv.Atoi(found[2])
		knows = a > major || a == major && b >= minor
	}
	if !knows {
		bind = append(bind, "--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods")
	}
	return [][]string{{"apiclient", "ephemeral-storage", "init"}, bind}
}
