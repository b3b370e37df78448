# godwit: "make help" lists the targets.
GO      ?= go
# Two cores are enough for everything here; tests that start API servers want them for themselves.
MEMBER   = bin/membercluster
KUBE     = k8s.io/component-base/version

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/godwit
	$(GO) build -o bin/godwit ./cmd/godwit

.PHONY: image
IMAGE   ?= godwit
VERSION ?= v0.1.0-dev
image: ## build the container image $(IMAGE):$(VERSION); needs docker
	docker build -f examples/install/Dockerfile --build-arg VERSION=$(VERSION) -t $(IMAGE):$(VERSION) .

.PHONY: membercluster
membercluster: $(MEMBER) ## build bin/membercluster, a real API server for tests and demo (minutes on an empty cache)

$(MEMBER): $(wildcard testdata/membercluster/*.go testdata/membercluster/go.*)
	cd testdata/membercluster && $(GO) build -o ../../$(MEMBER) -ldflags "-s -w -X $(KUBE).gitVersion=v1.36.1 -X $(KUBE).gitMajor=1 -X $(KUBE).gitMinor=36" .

.PHONY: demo
demo: build ## a complete fleet on this machine, step by step, until Ctrl-C
	bin/godwit demo $(DEMO)

.PHONY: demo-real
demo-real: build membercluster ## the same with a real API server for each member
	bin/godwit demo --members real $(DEMO)

.PHONY: prepare
prepare: ## install what the tests need from the system: git, curl and sshd
	@command -v git >/dev/null && command -v curl >/dev/null && test -x /usr/sbin/sshd || testdata/prepare.sh

.PHONY: check
check: prepare layers fmt vet ## everything that must pass before a commit, without real API servers
	$(GO) test ./...

.PHONY: test
test: prepare layers fmt vet membercluster ## everything, real API servers included
	GODWIT_MEMBERCLUSTER=$(CURDIR)/$(MEMBER) $(GO) test -count=1 -timeout 30m -tags realcluster ./...

.PHONY: soak
SOAK ?= -soak.rounds 160
soak: prepare membercluster ## what happens to a fleet in hours, in 10 minutes, on real API servers; SOAK="-soak.rounds 60 -soak.seed 7 -soak.race"
	GODWIT_MEMBERCLUSTER=$(CURDIR)/$(MEMBER) $(GO) test -count=1 -timeout 30m -tags realcluster -v -run '^TestSoak$$' ./cmd/godwit $(SOAK)

.PHONY: race
race: ## the tests under the race detector
	$(GO) test -race ./...

.PHONY: fuzz
FUZZTIME ?= 30s
fuzz: ## every fuzz target for FUZZTIME each
	@for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "== $$pkg $$target"; $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
	  done; \
	done

.PHONY: golden
golden: ## rewrite the golden files; read the diff before you commit it
	$(GO) test $$(grep -rlE --include='*_test.go' 'render/rendertest"|flag.Bool\("update"' . | xargs -n1 dirname | sort -u) -update

.PHONY: bench
bench: ## the benchmarks, each beside its peer where there is one
	$(GO) test -run '^$$' -bench . -benchtime 3x -benchmem ./gitstate/store ./gitstate/pack ./render/... ./reconciler/decide ./reconciler/observe ./reconciler/report ./api/... ./cmd/godwit

# Both are pinned, as what they run is somebody else's; the database is not, as it is to be new. It is a module like any
# other, so that no other host has to be reached. A binary is looked at: only what is linked into it counts.
VULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.9.0
VULNDB   ?= golang.org/x/vulndb@latest
SBOM      = github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0

.PHONY: vulncheck
vulncheck: build ## known vulnerabilities of what bin/godwit is made of
	@db=$$(cd / && $(GO) mod download -json $(VULNDB) | sed -n 's/^\t"Dir": "\(.*\)",*$$/\1/p'); test -d "$$db" || { echo "no database: $(VULNDB) cannot be had"; exit 1; }; \
	$(GO) run $(VULNCHECK) -db "file://$$db/data/osv" -mode binary bin/godwit

.PHONY: sbom
sbom: build ## bin/godwit.cdx.json, the modules that bin/godwit is made of (CycloneDX)
	$(GO) run $(SBOM) bin -json -noserial -std -version $(VERSION) -output bin/godwit.cdx.json bin/godwit

.PHONY: fips
fips: ## build bin/godwit-fips with the validated cryptographic module of Go, FIPS 140-3
	GOFIPS140=v1.0.0 $(GO) build -o bin/godwit-fips ./cmd/godwit

.PHONY: lint fmt vet
lint: fmt vet layers ## formatting, vet, layers
fmt:
	@out=$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go')); test -z "$$out" || { echo "not gofmt-ed: $$out"; exit 1; }
vet:
	$(GO) vet ./...
	$(GO) vet -tags realcluster ./cmd/godwit ./reconciler/... ./examples/...

.PHONY: layers
layers: ## check that imports point down only
	$(GO) run ./testdata/layers
