// Package nominate decides how a plan is handed to kube-scheduler: which pods are nominated
// for their target node (status.nominatedNodeName), when a node is opened to pods, and which
// pod is to be planned for another node, because kube-scheduler refuses to bind it to this one.
//
// What kube-scheduler does with nominations (1.37, read and measured 2026-11): it tries the
// nominated node first, and keeps the pod's room there from pods of equal or lower priority.
// But opening any node makes it try every pending pod. A nominated pod that it tries before the
// pod's target node is open loses its nomination and with it its room.
// The order in which it tries pods can be foreseen, though: mostly, the pod that was tried
// longest ago comes next.
//
// So a node opens when the nominations of its pods have been seen on them, and none of those
// pods is among the next that kube-scheduler tries. Many nodes open at once; a node with a pod
// that is tried soon waits until the pod was tried. Pods without a nomination find the open
// nodes taken and wait without harm.
//
// It imports internal/core/cluster only. Read view.go first (the question and the answer),
// then next.go, order.go and skew.go; elsewhere.go stands alone.
package nominate
