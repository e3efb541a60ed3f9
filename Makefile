# Everything that people and CI do with this tree. `make` lists it.
# Needed: Go, make, gcc, git. Tools are pinned in tools/go.mod and built by go.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

TOOL := go tool -modfile=tools/go.mod
# The Karpenter that bench compares with asks for a patch release of Go that may be newer than the
# one installed: go fetches it through the module proxy.
BENCH_GO := GOTOOLCHAIN=auto go
DEVCLUSTER_SOURCES := $(shell find devcluster -type f -not -name '*_test.go' -not -name '*.md')

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Another target's tests may run the program meanwhile: they find it whole, the one before or the new one.
.PHONY: build
build: bin/devcluster ## build bin/dovetail and bin/devcluster
	@echo "building dovetail…"
	@tools/progress.sh "building dovetail" go build -v -o bin/dovetail.$$$$ ./cmd/dovetail && mv bin/dovetail.$$$$ bin/dovetail

bin/devcluster: $(DEVCLUSTER_SOURCES)
	@echo "building the dev cluster (the first build compiles Kubernetes: 5 to 10 minutes on 2 cores)…"
	@tools/progress.sh "building the dev cluster" go -C devcluster build -v -ldflags "$$(cat devcluster/ldflags.txt)" -o ../bin/devcluster .
	@touch bin/devcluster

# Tests come in tiers. With -short, tests that start a control plane are skipped, long ones do less,
# and properties are tried fewer times. The packages with such tests are found by what the tests
# call, so that the tiers together leave nothing out.
packages_calling = $(patsubst %/,./%,$(sort $(dir $(shell grep -rlE --include='*_test.go' '$(1)' api cmd config internal test))))
PACKAGES = $(patsubst github.com/dovetail-sh/dovetail/%,./%,$(shell go list ./...))
CLUSTER_PACKAGES = $(call packages_calling,testkit\.(StartCluster|Binary)|loops\.New)
LONG_PACKAGES = $(call packages_calling,testing\.Short|testkit\.Long|rapid\.(Check|MakeCheck))
# The race detector sees nothing in a package whose tests have one goroutine each: long ones do less with it.
PURE_PACKAGES = $(filter ./internal/core/% ./internal/decision/% ./internal/sim/world,$(PACKAGES))
CLUSTER_ENV := DEVCLUSTER_BIN=$(CURDIR)/bin/devcluster DOVETAIL_BIN=$(CURDIR)/bin/dovetail KARPENTER_BIN=$(CURDIR)/bin/karpenter IMAGE_BIN=$(CURDIR)/bin/image
INSTALL_ENV := HELM_BIN=$(CURDIR)/bin/helm HELM3_BIN=$(CURDIR)/bin/helm3 KUBECTL_BIN=$(CURDIR)/bin/kubectl REGISTRY_BIN=$(CURDIR)/bin/registry
# Vetted by make lint; by make test, too, for those who run nothing else.
TEST := go test -json -timeout 45m -vet=off
REPORT := go -C tools run ./testreport
# Tests of these modules read files outside of them, which go does not look at before it takes a cached result.
OUTSIDE := -count=1

.PHONY: test
test: ## test every package without a control plane, and the simulations with few seeds: takes minutes
	@echo "testing (the first run compiles the product: a few minutes)…"
	{ $(filter-out -vet=off,$(TEST)) -short ./... && go -C tools test $(OUTSIDE) -json ./... && go -C tools/helm test $(OUTSIDE) -json ./charttest && go -C tools/image test -json ./... && go -C tools/prometheus test -json ./... && go -C tools/docs test $(OUTSIDE) -json ./... && go -C tools/protocol test $(OUTSIDE) -json ./... && go -C tools/web test $(OUTSIDE) -json ./... ; } | $(REPORT)

.PHONY: test-race
test-race: ## the same with the race detector, but for what test-cluster tests with it; in full where there are goroutines
	{ $(TEST) -race $(filter-out $(CLUSTER_PACKAGES) $(PURE_PACKAGES),$(PACKAGES)) && $(TEST) -race -short $(filter-out $(CLUSTER_PACKAGES),$(PURE_PACKAGES)) ; } | $(REPORT)

# The packages of the example provider in Node.js. Without them its tests are skipped, and say so.
examples/provider-node/node_modules: examples/provider-node/package-lock.json
	@if command -v npm >/dev/null && npm --prefix examples/provider-node ci --silent; then touch $@; else echo "no packages by npm: the example provider in Node.js is not tested" >&2; fi

# The end-to-end tests run the binary, so the race detector would see the tests alone. Each waits
# for much of its time, so that three at once fit two cores.
.PHONY: test-cluster
test-cluster: build karpenter bin/image examples/provider-node/node_modules ## test on dev clusters: e2e; with the race detector API, oracle, conformance of the simulations; then the dev cluster itself
	{ $(CLUSTER_ENV) $(TEST) -parallel 3 -skip '^TestInstall|^TestClusterAPI' $(filter %/e2e,$(CLUSTER_PACKAGES)) && $(CLUSTER_ENV) $(TEST) -race -skip '^TestClusterAPI' $(filter-out %/e2e,$(CLUSTER_PACKAGES)) && $(CLUSTER_ENV) go -C devcluster test -json ./... ; } | $(REPORT)

.PHONY: test-install
test-install: build karpenter bin/image install-tools ## install, upgrade and misconfigure the Helm chart with real Helm and kubectl, on dev clusters and a registry on loopback
	$(CLUSTER_ENV) $(INSTALL_ENV) $(TEST) -run '^TestInstall' ./test/e2e | $(REPORT)

.PHONY: install-tools
install-tools: ## build bin/helm (Helm 4), bin/helm3, bin/kubectl and bin/registry from their modules
	@echo "building Helm and kubectl (the first build compiles what the dev cluster lacks: some minutes)…"
	@tools/progress.sh "building kubectl" go -C tools/helm build -v -o ../../bin/kubectl ./kubectl
	@tools/progress.sh "building Helm 4" go -C tools/helm build -v -o ../../bin/helm helm.sh/helm/v4/cmd/helm
	@tools/progress.sh "building Helm 3" go -C tools/helm build -v -o ../../bin/helm3 helm.sh/helm/v3/cmd/helm
	@tools/progress.sh "building the registry" go -C tools/image build -v -o ../../bin/registry ./registry

# Tests that start a control plane are those of test-cluster: beside other work at the lowest priority none becomes ready.
.PHONY: test-sim
test-sim: ## run the simulations, the large scenarios and the properties in full; then the benchmark's tests
	{ DEVCLUSTER_BIN=none $(TEST) $(LONG_PACKAGES) && $(BENCH_GO) -C bench test -json -mod=mod ./... ; } | $(REPORT)

.PHONY: lint
lint: ## run the linters of .golangci.yml and go vet
	@tools/progress.sh "building golangci-lint" $(TOOL) golangci-lint version
	$(TOOL) golangci-lint run ./...
	cd devcluster && go vet ./...
	cd tools && go vet ./...
	cd tools/helm && go vet ./charttest
	cd tools/image && go vet ./...
	cd tools/prometheus && go vet ./...
	cd tools/docs && go vet ./...
	cd tools/protocol && go vet ./...
	cd tools/web && go vet ./...
	$(BENCH_GO) -C bench vet -mod=mod ./...

.PHONY: fmt
fmt: ## format the Go files
	$(TOOL) golangci-lint fmt

.PHONY: generate
generate: ## write the deep copies, CRDs and gRPC code that follow from api/, and what of the charts follows from other files
	@tools/progress.sh "building controller-gen" $(TOOL) controller-gen --version
	$(TOOL) controller-gen object paths=./api/...
	$(TOOL) controller-gen crd paths=./api/... output:crd:dir=config/crd
	go -C tools run ./crdtweak ../config/crd
	go -C tools run ./chartgen ..
	go -C tools/protocol run . ../../api/provider/v1/provider.proto

.PHONY: script
script: ## bundle the script of the pages (internal/view/web/script)
	go -C tools/web run . ../..

.PHONY: test-browser
test-browser: bin/axe/node_modules/axe-core/axe.min.js ## test the pages in Chromium, and by the rules of axe-core; needs chromium and npm
	AXE_JS=$(CURDIR)/$< go -C tools/web test -count=1 -v -timeout 20m ./browser

bin/axe/node_modules/axe-core/axe.min.js:
	npm install --no-audit --no-fund --no-save --prefix bin/axe axe-core@4.14.1

.PHONY: screenshots
screenshots: ## photograph the pages, light and dark, into bin/pictures; needs chromium
	mkdir -p bin/pictures
	go -C tools/web test -count=1 -v -run '^TestScreenshots$$' ./browser -args -pictures=$(CURDIR)/bin/pictures

.PHONY: dashboards
dashboards: ## write the chart's Grafana dashboards (tools/prometheus)
	go -C tools/prometheus run .

.PHONY: record-metrics
record-metrics: build ## record what a controller shows in the run of TestMetrics, for the tests of dashboards and rules
	$(CLUSTER_ENV) go test -count=1 -timeout 20m -v -run '^TestMetrics$$' ./test/e2e -args -metrics-recording=$(CURDIR)/tools/prometheus/testdata/recording.gz

.PHONY: verify
verify: ## check that generated files, go.mod files and formatting are as they should be
	tools/verify.sh

.PHONY: layers
layers: ## show which packages' files stand in layers; V=1 says what does not, PKG=internal/core/pack of one package
	@go -C tools run ./layers $(if $(V),-v) .. $(PKG)

.PHONY: behaviour
behaviour: ## compare plans, simulated clusters and recorded decisions with those of the commit OLD=
	@OLD=$(OLD) tools/behaviour.sh

.PHONY: demo
demo: build ## show pods getting nodes on a real control plane and a simulated AWS account; DEMO_EXIT=1 ends by itself, PROVIDER=kwok does without AWS
	./bin/dovetail demo $(if $(PROVIDER),--cloud-provider $(PROVIDER)) $(if $(DEMO_EXIT),--exit)

.PHONY: test-moto
test-moto: moto-installed build ## the whole product on moto, an emulator of AWS by others, and a table of what moto lacks
	TEST_MOTO=1 go test -count=1 -timeout 30m -v -run '^TestMoto' ./test/e2e

.PHONY: moto-installed
moto-installed: # asked before anything is built for it
	@command -v moto_server >/dev/null || { echo "moto_server is not installed; to install it: pip install 'moto[server]'" >&2; exit 1; }

.PHONY: soak
soak: build ## let kube-scheduler judge plans for 1000 fresh random clusters; SEEDS=n for more
	ORACLE_SEEDS=$(or $(SEEDS),1000) go test -count=1 -timeout 2h -v -run TestPlansHold ./test/oracle

.PHONY: soak-world
soak-world: ## let the whole controller live through SEEDS=n simulated storms, and seek every mutant
	go test -count=1 -timeout 24h -run TestSeeds ./internal/sim/world -args -seeds=$(or $(SEEDS),200) -stormy=2h -nodes=0
	go test -count=1 -timeout 24h -v -run TestMutantsAreFound ./internal/sim/world -args -mutant-seeds=$(or $(MUTANT_SEEDS),2000)

.PHONY: soak-days
soak-days: ## let DAYS=n small clusters live a day each, with every fault, from seed FROM on
	go test -count=1 -timeout 0 -v -run TestDays ./internal/sim/world -args -days=$(or $(DAYS),1000) -from=$(or $(FROM),1)

.PHONY: soak-aws
soak-aws: ## the whole product on a simulated AWS account: 300 of 600 nodes taken back, 20,000 pods at once, SEEDS=n hours of faults
	go test -count=1 -timeout 8h -v ./test/disaster -args -storm-nodes=600 -scale-pods=20000 -hour-length=1h -hour-seeds=$(or $(SEEDS),5)

.PHONY: soak-e2e
soak-e2e: build ## consolidate 200 nodes under 20 PodDisruptionBudgets, also while load pulses
	E2E_LARGE=1 go test -count=1 -parallel 1 -timeout 1h -v -run 'TestConsolidation(Keeps|Ends)' ./test/e2e

.PHONY: soak-crash
soak-crash: build ## kill -9 the controller at KILLS=n (50) random moments on a simulated AWS account, and stop a leader PAUSES=n (5) times; SEED=n chooses
	go test -count=1 -parallel 1 -timeout 2h -v -run 'TestCrash$$|TestReplicas$$' ./test/e2e -args -crashes=$(or $(KILLS),50) -pauses=$(or $(PAUSES),5) -crash-seed=$(or $(SEED),1)

.PHONY: soak-capi
soak-capi: build bin/capi ## kill -9 the controller and Cluster API's controllers at KILLS=n (20) random moments; SEED=n chooses
	$(CLUSTER_ENV) CAPI_BIN=$(CURDIR)/bin/capi go test -count=1 -timeout 1h -v -run '^TestClusterAPI$$' ./test/e2e -args -capi-kills=$(or $(KILLS),20) -crash-seed=$(or $(SEED),1)

.PHONY: soak-provider
soak-provider: build examples/provider-node/node_modules ## kill -9 the controller and the provider's server, in Go and in Node.js, at KILLS=n (20) random moments each; SEED=n chooses
	$(CLUSTER_ENV) go test -count=1 -timeout 1h -v -run '^TestProviderIsKilled$$' ./test/e2e -args -provider-kills=$(or $(KILLS),20) -crash-seed=$(or $(SEED),1)

.PHONY: soak-hostile
soak-hostile: build ## apply OBJECTS=n (500) hostile objects with lists of up to MOST=n (50) to a real API server beside ordinary pods; SEED=n chooses
	go test -count=1 -parallel 1 -timeout 4h -v -run 'TestHostileObjects$$' ./test/e2e -args -hostile-objects=$(or $(OBJECTS),500) -hostile-most=$(or $(MOST),50) -hostile-rounds=$(or $(ROUNDS),5) -hostile-slower=2 -hostile-wait=0 -hostile-seed=$(or $(SEED),1)

.PHONY: fuzz
fuzz: ## run every fuzz test for FUZZTIME=10m each; ONLY=FuzzPod runs those of that name
	FUZZTIME=$(FUZZTIME) ONLY=$(ONLY) tools/fuzz.sh

.PHONY: bench
bench: ## solve the same scenarios with Dovetail and with Karpenter, and write docs/performance.md; QUICK=1 takes minutes
	@echo "building the benchmark (the first build compiles Karpenter: a minute or two)…"
	@tools/progress.sh "building the benchmark" env $(BENCH_GO) -C bench build -mod=mod -v -o ../bin/bench/ ./...
	cd bench && ../bin/bench/bench $(if $(QUICK),-quick) $(if $(LIMIT),-limit $(LIMIT))

# Published Karpenter, its end-to-end suites and what they need come as the module that bench compares with.
KARPENTER := sigs.k8s.io/karpenter
SUITE = regression

.PHONY: karpenter
karpenter: bin/suites.mod ## build published Karpenter with its kwok provider, which TestMigration migrates from
	@echo "building Karpenter (the first build compiles what the benchmark needs, too: some minutes)…"
	@tools/progress.sh "building Karpenter" env $(BENCH_GO) -C bench build -mod=mod -modfile=../bin/suites.mod -v -o ../bin/karpenter $(KARPENTER)/kwok

# The benchmark's go.mod, to which go may add what only Karpenter's programs and suites import.
bin/suites.mod: bench/go.mod bench/go.sum
	@mkdir -p bin
	cp bench/go.mod bin/suites.mod
	cp bench/go.sum bin/suites.sum

# The DRA suite and its driver as published can write none of their own objects: they are built from a
# copy of the module with a file of ours that mends it (test/suites/testdata/options.go).
KARPENTER_DIR = $(shell $(BENCH_GO) -C bench list -mod=mod -m -f '{{.Dir}}' $(KARPENTER))
bin/suites-dra.mod: bin/suites.mod test/suites/testdata/options.go
	rm -rf bin/karpenter-dra
	cp -r $(KARPENTER_DIR) bin/karpenter-dra && chmod -R u+w bin/karpenter-dra
	cp test/suites/testdata/options.go bin/karpenter-dra/dra-kwok-driver/pkg/apis/v1alpha1/
	cp bin/suites.mod bin/suites-dra.mod
	cp bin/suites.sum bin/suites-dra.sum
	go mod edit -replace $(KARPENTER)=../bin/karpenter-dra bin/suites-dra.mod

SUITES_MOD = bin/suites$(if $(filter dra,$(SUITE)),-dra).mod

.PHONY: suites
suites: build $(SUITES_MOD) ## run a suite of Karpenter's own against dovetail; SUITE=regression|disruption|dra|performance, FOCUS= and SKIP= regexps
	$(BENCH_GO) -C bench test -mod=mod -modfile=../$(SUITES_MOD) -c -o ../bin/suite-$(SUITE) $(KARPENTER)/test/suites/$(SUITE)
	$(if $(filter dra,$(SUITE)),$(BENCH_GO) -C bench build -mod=mod -modfile=../$(SUITES_MOD) -o ../bin/dra-kwok-driver $(KARPENTER)/dra-kwok-driver)
	go run ./test/suites $(if $(filter dra,$(SUITE)),-dra-driver bin/dra-kwok-driver) -suite bin/suite-$(SUITE) -module $(KARPENTER_DIR) -log bin/suite-$(SUITE).log \
		-- -ginkgo.v $(if $(FOCUS),-ginkgo.focus '$(FOCUS)') $(if $(SKIP),-ginkgo.skip '$(SKIP)') -ginkgo.timeout 2h -test.timeout 2h

# What names a build: who builds the same commit gets the same bytes. Asked once, when first needed, so that all
# parts of a release have the same name.
REVISION = $(eval REVISION := $(shell git describe --always --dirty --abbrev=40 --match=))$(REVISION)
CREATED = $(eval CREATED := $(shell git log -1 --format=%cI))$(CREATED)

.PHONY: image
image: ## write the container image to dist/image, an OCI layout for amd64 and arm64; VERSION=, KEY=file to sign it as NAME=
	go -C tools/image run . -source ../../cmd/dovetail -output "$(CURDIR)/dist/image" -version $(or $(VERSION),0.1.0-dev) -name $(or $(NAME),dovetail) \
		-revision "$(REVISION)" -created "$(CREATED)" $(if $(KEY),-key '$(abspath $(KEY))')

# The image for this computer alone, which TestTheImageRunsAsInAPod runs.
.PHONY: bin/image
bin/image:
	@echo "building the image for this computer (the first build compiles the product once more: minutes)…"
	go -C tools/image run . -source ../../cmd/dovetail -output "$(CURDIR)/bin/image" -version 0.1.0-dev -revision "$(REVISION)" -created "$(CREATED)" -platforms linux/$(shell go env GOARCH)

.PHONY: bin/capi
bin/capi: bin/capi/dev

bin/capi/dev: tools/capi/go.mod tools/capi/go.sum tools/capi/earlier/go.mod
	@echo "building Cluster API's controllers (the first build takes 5 to 10 minutes on 2 cores)…"
	mkdir -p bin/capi/crds bin/capi/earlier
	go -C tools/capi mod download sigs.k8s.io/cluster-api sigs.k8s.io/cluster-api/test
	for dir in "$$(go -C tools/capi list -m -f '{{.Dir}}' sigs.k8s.io/cluster-api)/core" "$$(go -C tools/capi list -m -f '{{.Dir}}' sigs.k8s.io/cluster-api/test)/infrastructure/docker"; do cp -f "$$dir"/config/crd/bases/*.yaml bin/capi/crds/; done
	go -C tools/capi/earlier mod download sigs.k8s.io/cluster-api
	dir="$$(go -C tools/capi/earlier list -m -f '{{.Dir}}' sigs.k8s.io/cluster-api)" && cp -f "$$dir"/config/crd/bases/cluster.x-k8s.io_[cm]*.yaml "$$dir"/bootstrap/kubeadm/config/crd/bases/*.yaml bin/capi/earlier/
	chmod -R u+w bin/capi
	@tools/progress.sh "building Cluster API's controllers" go -C tools/capi build -v -ldflags "-s -w" -o $(CURDIR)/bin/capi/core sigs.k8s.io/cluster-api/core
	@tools/progress.sh "building those of its Dev provider" go -C tools/capi build -v -ldflags "-s -w" -o $(CURDIR)/bin/capi/dev sigs.k8s.io/cluster-api/test/infrastructure/docker

.PHONY: test-capi
# One package at a time: the Dev provider listens on the ports 19000 and 20000, which no flag changes.
test-capi: build bin/capi ## test the provider clusterapi against Cluster API's own controllers and its Dev provider
	$(CLUSTER_ENV) CAPI_BIN=$(CURDIR)/bin/capi $(TEST) -p 1 -run '^TestClusterAPI' ./internal/cloud/clusterapi ./test/e2e | $(REPORT)

.PHONY: release
release: version-given image ## write archives, charts, image, checksums, completions and man pages to dist/release; VERSION=1.2.3, PLATFORMS=linux/amd64,… of the archives
	rm -rf dist/beside
	go -C tools/docs run . manual -output "$(CURDIR)/dist/beside" -version $(VERSION) -created "$(CREATED)"
	go -C tools/docs run . notices -output "$(CURDIR)/dist/beside/NOTICES.txt"
	go -C tools run ./release -source ../cmd/dovetail -output "$(CURDIR)/dist/release" -version $(VERSION) -revision "$(REVISION)" -created "$(CREATED)" \
		-image "$(CURDIR)/dist/image" $(if $(PLATFORMS),-platforms "$(PLATFORMS)") $(if $(wildcard deploy/charts),-charts "$(CURDIR)/deploy/charts") \
		-beside "$(CURDIR)/LICENSE,$(CURDIR)/dist/beside/NOTICES.txt,$(CURDIR)/dist/beside/man,$(CURDIR)/dist/beside/completions"

.PHONY: version-given
version-given:
	@test -n "$(VERSION)" || { echo "make release needs a version, as in make release VERSION=1.2.3" >&2; exit 1; }

.PHONY: docs
docs: ## render the documents as a site to dist/site
	go -C tools/docs run . site -output "$(CURDIR)/dist/site"

.PHONY: pages
pages: ## write the pages of docs/reference that follow from the code
	go -C tools/docs run . pages

.PHONY: benchmarks
benchmarks: build ## run every Go benchmark of the product
	go test -run '^$$' -bench . ./...

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist
