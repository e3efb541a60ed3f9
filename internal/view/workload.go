package view

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// Workload is what pods belong to. Kind is the kind of what made them, or "Pod" if nothing did, or empty
// if that is not known: then Name is that of an app label, or "(other)".
type Workload struct {
	Namespace string `json:"namespace"`
	Kind      string `json:"kind,omitempty"`
	Name      string `json:"name"`
}

// other is the name of a workload that is not known.
const other = "(other)"

// String returns namespace/name.
func (w Workload) String() string { return w.Namespace + "/" + w.Name }

func (w Workload) compare(o Workload) int {
	return cmp.Or(cmp.Compare(w.Namespace, o.Namespace), cmp.Compare(w.Name, o.Name), cmp.Compare(w.Kind, o.Kind))
}

// workloads finds whose pods are. A snapshot counts running pods by their constraints, which have
// namespace and labels; the pods that can move have a name and the kind of their controller besides.
type workloads struct {
	byConstraints map[*cluster.Constraints]Workload
	byLabels      map[string]Workload
}

func newWorkloads(snap *cluster.Snapshot) *workloads {
	w := &workloads{byConstraints: map[*cluster.Constraints]Workload{}, byLabels: map[string]Workload{}}
	for i := range snap.Daemons {
		d := &snap.Daemons[i]
		if namespace, name, ok := strings.Cut(d.Name, "/"); ok && d.Constraints != nil {
			w.byLabels[labelsKey(namespace, d.Constraints.Labels)] = Workload{namespace, "DaemonSet", name}
		}
	}
	for i := range snap.Nodes {
		pods := snap.Nodes[i].Reschedulable
		for k := range pods {
			if r := &pods[k]; r.Buffer == "" {
				w.learn(r)
			}
		}
	}
	return w
}

// learn takes in a pod whose name and controller are known.
func (w *workloads) learn(r *cluster.ReschedulablePod) {
	if _, had := w.byConstraints[r.Constraints]; had && r.Controller != "" {
		return
	}
	found := workloadOf(r.PodRef, r.Controller, r.Constraints.Labels)
	w.byConstraints[r.Constraints] = found
	if key := labelsKey(r.Namespace, r.Constraints.Labels); key != "" {
		if _, had := w.byLabels[key]; !had {
			w.byLabels[key] = found
		}
	}
}

// of returns whose pods with these constraints are.
func (w *workloads) of(c *cluster.Constraints) Workload {
	if found, ok := w.byConstraints[c]; ok {
		return found
	}
	found, ok := w.byLabels[labelsKey(c.Namespace, c.Labels)]
	if !ok {
		found = Workload{Namespace: c.Namespace, Name: cmp.Or(appOf(c.Labels), other)}
	}
	w.byConstraints[c] = found
	return found
}

// ofPod returns whose a pending pod is: its name says it if nothing else does.
func (w *workloads) ofPod(p *cluster.Pod) Workload {
	if p.Constraints == nil {
		return Workload{Namespace: p.Namespace, Kind: "Pod", Name: p.Name}
	}
	found := w.of(p.Constraints)
	if found.Name == other {
		return workloadOf(p.PodRef, guessController(p.Constraints.Labels), p.Constraints.Labels)
	}
	return found
}

// workloadOf returns whose a pod is by what Kubernetes names pods: a Deployment's are
// NAME-HASH-RANDOM, those of a ReplicaSet, DaemonSet or Job NAME-RANDOM, those of a StatefulSet NAME-NUMBER.
func workloadOf(pod cluster.PodRef, controller string, labels map[string]string) Workload {
	found := Workload{Namespace: pod.Namespace, Kind: controller, Name: pod.Name}
	cut := func() {
		if at := strings.LastIndexByte(found.Name, '-'); at > 0 {
			found.Name = found.Name[:at]
		}
	}
	switch controller {
	case "":
		found.Kind = "Pod"
	case "ReplicaSet":
		cut()
		if hash := labels["pod-template-hash"]; hash != "" && strings.HasSuffix(found.Name, "-"+hash) {
			found.Kind = "Deployment"
			found.Name = strings.TrimSuffix(found.Name, "-"+hash)
		}
	default:
		cut()
	}
	return found
}

// guessController returns the kind of controller that puts such labels on its pods; empty: none is known.
func guessController(labels map[string]string) string {
	switch {
	case labels["pod-template-hash"] != "":
		return "ReplicaSet"
	case labels["batch.kubernetes.io/job-name"] != "" || labels["job-name"] != "":
		return "Job"
	case labels["apps.kubernetes.io/pod-index"] != "":
		return "StatefulSet"
	default:
		return ""
	}
}

// appOf returns what labels call the app of a pod; empty: they do not.
func appOf(labels map[string]string) string {
	return cmp.Or(labels["app.kubernetes.io/name"], labels["app"], labels["k8s-app"], labels["batch.kubernetes.io/job-name"], labels["job-name"], labels["name"])
}

// labelsKey is equal for pods of one workload, whatever the revision of its template; empty: they have
// no label that says so.
func labelsKey(namespace string, labels map[string]string) string {
	var parts []string
	for k, v := range labels {
		switch k {
		case "pod-template-hash", "controller-revision-hash", "pod-template-generation", "batch.kubernetes.io/controller-uid", "controller-uid":
		default:
			parts = append(parts, k+"="+v)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	slices.Sort(parts)
	return namespace + "\n" + strings.Join(parts, "\n")
}

// WorkloadsOf returns a function that says whose a pending pod of a snapshot is.
func WorkloadsOf(snap *cluster.Snapshot) func(*cluster.Pod) Workload { return newWorkloads(snap).ofPod }
