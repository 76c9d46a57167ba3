# Berth. A bare `make` lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash

BIN     ?= bin
PREFIX  ?= /usr/local
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X github.com/berthq/berth/internal/version.Version=$(VERSION)

# go-nvml's header is full of deprecation notes; they are NVIDIA's, not ours.
export CGO_CFLAGS := -O1 -g -Wno-deprecated-declarations

# Package tests run two at a time: the machines that test Berth have two cores.
GOTEST := go test -p 2 -race -shuffle=on -timeout 8m

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: build ## run the main job on an embedded broker and show its result
	@$(BIN)/berth-demo

.PHONY: test
test: ## all tests but the long ones (about 8 minutes on two cores)
	$(GOTEST) ./...

.PHONY: test-all
test-all: ## every test, the long ones too
	BERTH_LONG=1 go test -p 1 -race -shuffle=on -timeout 40m ./...

.PHONY: lint
lint: ## gofmt, vet and golangci-lint (installs it when missing)
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	go vet ./...
	@command -v golangci-lint >/dev/null || test -x "$$(go env GOPATH)/bin/golangci-lint" || \
	  go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
	PATH="$$PATH:$$(go env GOPATH)/bin" golangci-lint run ./...

.PHONY: vm
vm: ## tests of isolation on a machine of their own with cgroup v2 (qemu; about 3 minutes)
	runner/vm.sh "$${XDG_CACHE_HOME:-$$HOME/.cache}/berth/kernel"

.PHONY: engine
engine: ## unpack a container engine into the cache folder, for the tests of containers (Debian, as root)
	runner/container/enginetest/fetch.sh "$${XDG_CACHE_HOME:-$$HOME/.cache}/berth/engine"

FUZZTIME ?= 20s
.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (20s)
	@set -e; for p in $$(go list ./...); do \
	  for f in $$(go test -list '^Fuzz' $$p 2>/dev/null | grep '^Fuzz'); do \
	    echo "== $$p $$f"; go test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$p; done; done

.PHONY: bench
bench: ## benchmarks: ratios to a bare path, measured in one run
	go test -run '^$$' -bench . -benchmem -timeout 20m ./...

.PHONY: gpu
gpu: ## tests that need a real NVIDIA GPU (BERTH_GPU=required: none is a failure); elsewhere they say that they did not run
	@out=$$(mktemp); trap 'rm -f $$out' EXIT; set -o pipefail; \
	go test -tags gpu -count=1 -v -timeout 20m -run '^TestGPU' ./telemetry/nvml ./worker/e2e 2>&1 | tee $$out; code=$$?; \
	if grep -q 'NOT RUN' $$out; then echo; echo "make gpu: NOT RUN here, this machine has no NVIDIA GPU that answers (see above); nothing was shown"; fi; \
	exit $$code

.PHONY: screenshots
screenshots: ## the pictures in docs/dashboard, from berth up --demo in a headless Chromium
	BERTH_SCREENSHOTS=$(CURDIR)/docs/dashboard go test -count=1 -run '^TestPictures$$' -v ./web/browser

.PHONY: build
build: ## the three commands (and the demo) into bin/
	@mkdir -p $(BIN)
	go build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/worker ./cmd/berth ./cmd/berth-demo
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/submit

.PHONY: install
install: build ## install the commands under PREFIX (/usr/local)
	install -d $(DESTDIR)$(PREFIX)/bin
	for c in submit worker berth; do install -m 0755 $(BIN)/$$c $(DESTDIR)$(PREFIX)/bin/$$c; done

.PHONY: release
release: ## the tarball of a release and its SHA256SUMS into dist/
	deploy/release.sh "$(VERSION)" dist

.PHONY: cover
cover: ## test coverage as cover.html
	go test -p 2 -coverprofile cover.out ./... && go tool cover -html cover.out -o cover.html
