// Package nominate decides how a plan is handed to kube-scheduler: which pods carry the
// name of the machine they are meant for (status.nominatedNodeName, a hint), and when a
// machine is opened to pods.
//
// kube-scheduler (1.37, read and measured 2026-11) tries a hinted node first and keeps the
// pod's room there from pods of equal or lower priority. But opening any node makes it try
// every pending pod again, and a hinted pod that it tries in vain, because its own node is
// still closed, loses the hint, which makes it try every pod once more. So hints are given
// while it is quiet, to the pods of one node; that opens; and the next one waits until its pods are
// bound and it is quiet again. Pods without a hint that are
// tried meanwhile find the open nodes full and fall asleep without harm.
//
// Read view.go, then next.go.
package nominate
