// Package nominate decides how a plan is handed to kube-scheduler: which pods carry the
// name of the node they are meant for (status.nominatedNodeName, a hint), when a
// node is opened to pods, and which pod is not to be expected there any more.
//
// What kube-scheduler does with hints (1.37, read and measured 2026-11): it tries a hinted
// node first, and keeps the pod's room there from pods of equal or lower priority. But
// opening any node makes it try every pending pod, and a hinted pod that it tries in vain,
// because its own node is still closed, loses its hint and with it its room. It tries pods
// one after another in an order that can be foreseen, though: mostly, who was tried
// longest ago comes next.
//
// So a node opens when the hints of its pods have been seen to stand, and none of them is
// among those tried next; many nodes at once, while others that have such a pod wait until
// it was tried. Pods without a hint find the open nodes taken and fall asleep without harm.
//
// Read view.go, next.go, order.go, crowd.go; then elsewhere.go.
package nominate
