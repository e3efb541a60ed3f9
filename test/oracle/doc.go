// Package oracle lets the real kube-scheduler judge Dovetail's plans. Random clusters of
// pods with constraints of every kind, in all pairs and many triples, are made on a real
// control plane (TestEveryPairOfKindsIsCovered counts them); Dovetail plans for them; the planned nodes are created, and
// kube-scheduler binds. Two things must hold: no pod that the plan placed stays Pending,
// and no pod that the plan refused can be scheduled on a node that some allowed
// offering would give.
//
// The one idea: pods are created with a scheduling gate. So everything of a scenario is
// there, as the API server made it, before the scheduler may look at any pod, and the
// order in which it looks at them is ours. Nothing waits for a back-off.
//
// Scenarios are judged many at a time in lanes, each with namespaces of its own; a label
// and a taint keep the pods of a run on the run's nodes. A scenario that fails is made as small as
// it can be and kept in testdata/failed, and is judged again first from then on.
//
//	go test ./test/oracle                            the fixed seeds
//	ORACLE_SEEDS=1000 go test -timeout 1h ./test/oracle    as many fresh ones
//	ORACLE_SEED=17 go test -v ./test/oracle          one seed
//	ORACLE_FILE=testdata/failed/17.yaml go test -v ./test/oracle   one file
//	ORACLE_KINDS=ports,taints go test ./test/oracle  with these kinds of constraints alone
//
// Read scenario_test.go (what a scenario is), generate_test.go and the kinds_*_test.go
// (how one is made), judge_test.go and candidates_test.go (how it is judged) with
// run_test.go, storage_test.go and lane_test.go (what is done to the cluster), then
// oracle_test.go and shrink_test.go.
package oracle
