// Package nominate decides how a plan is handed to kube-scheduler: which pods carry the
// name of the machine they are meant for (status.nominatedNodeName, a hint), and when a
// machine is opened to pods.
//
// kube-scheduler tries a hinted node first and keeps the pod's room there from pods of
// equal or lower priority. But it takes a hint away when the pod goes through a cycle in
// which no node will do, and opening any node makes every pending pod go through one. So
// the pods of a machine are hinted just before it opens, machines that are ready together
// open together, the next ones when those are full, and a hint that was taken away is
// given again.
package nominate
