// Package e2e tests the devcluster binary from outside, as its users see it: every test
// runs bin/devcluster (or $DEVCLUSTER_BIN) and looks at what it prints and serves. Nothing
// of Kubernetes' servers is linked here, so the tests build in seconds.
package e2e
